"""Step times on several nodes from that on one node and what is known of the link.

A ring all-reduce follows the computation: t(n) = t(1) + 2(n−1)·α + 2(n−1)/n·S/B. B is what rings
make of a link's rate, 7 % less than what frames leave of it. `bench/forecast.py` compares this with
all committed records that have a one-node time.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from nodewise.core.errors import UserError
from nodewise.predict.law import At
from nodewise.predict.laws.ring import RingAllReduce
from nodewise.predict.link_rates import PAYLOAD_SHARE

RING_SHARE = 0.93
SPREAD = 0.083
"""Standard deviation of the logarithm of what was measured over this, on the committed records."""
_TAIL = 1.645  # standard deviations to each end of a 90 % interval


class Link(NamedTuple):
    """A link: payload in bytes per second, and seconds per message."""

    bytes_per_s: float
    latency_s: float


def ethernet(gbit: float, latency_s: float) -> Link:
    """Return an Ethernet of a rate."""
    return Link(gbit * 1e9 / 8 * PAYLOAD_SHARE, latency_s)


LINKS: Mapping[str, Link] = {
    "1gbit": ethernet(1, 50e-6),
    "10gbit": ethernet(10, 30e-6),
    "25gbit": ethernet(25, 20e-6),
    "100gbit": ethernet(100, 10e-6),
    "hdr": Link(200e9 / 8, 2e-6),
    "ndr": Link(400e9 / 8, 2e-6),
    "nvlink": Link(300e9, 5e-6),
    "pcie": Link(16e9, 10e-6),
}
"""Rates of one direction: of one port of InfiniBand, NVLink 3, half of what PCIe 4.0 x16 can."""


def parse_link(text: str) -> Link:
    """Return a link by its name, or by a rate such as `250mbit`.

    Raises:
        UserError: it is neither.
    """
    found = re.fullmatch(r"(\d+\.?\d*)(m|g)bit", text.lower(), re.ASCII)
    if text.lower() in LINKS:
        return LINKS[text.lower()]
    if found is None or float(found[1]) <= 0:
        names = ", ".join(LINKS)
        raise UserError(f"--link {text[:40]}: must be one of {names}, or a rate such as 250mbit")
    return ethernet(float(found[1]) * (1.0 if found[2] == "g" else 1e-3), 50e-6)


def forecast_rows(
    one_node_s: float, payload_bytes: float, batch: int, link: Link, nodes: Sequence[int]
) -> list[dict[str, Any]]:
    """Return a row per number of nodes, with seconds of a step, their interval, and the speedup.

    Args:
        one_node_s: seconds of a step on one node.
        payload_bytes: of one gradient.
        batch: examples per node and step.
        link: between all nodes.
        nodes: the numbers of nodes.
    """
    law = RingAllReduce()
    known = dict.fromkeys((p.name for p in law.parameters), 0.0) | {
        "compute_fixed_s": one_node_s,
        "latency_s": link.latency_s,
        "seconds_per_byte": 1 / (RING_SHARE * link.bytes_per_s),
    }
    counts = np.array(nodes, dtype=np.float64)
    steps = np.asarray(law.step_s(known, At.of(counts, batch, payload_bytes)), dtype=np.float64)
    rows = []
    for n, step_s in zip(nodes, steps.tolist(), strict=True):
        wider = float(np.exp(_TAIL * SPREAD)) if n > 1 else 1.0
        rows.append(
            {
                "nodes": n,
                "batch_per_worker": batch,
                "step_time_s": step_s,
                "low": step_s / wider,
                "high": step_s * wider,
                "samples_per_s": n * batch / step_s,
                "speedup": n * one_node_s / step_s,
                "kind": "measured" if n == 1 else "forecast",
            }
        )
    return rows

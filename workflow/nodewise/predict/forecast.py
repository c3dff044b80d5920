"""Forecast step times on several nodes from the one-node time and a description of the link.

A ring all-reduce follows the computation: t(n) = t(1) + r(n), with
r(n) = 2(n−1)·α + 2(n−1)/n·S/B. B is the bandwidth that rings achieve: the rate of the link, less
frame headers, less 7 %. A strategy that sends the first gradients while it computes the others
hides a share h of the shorter of the two: t(n) = t(1) + r(n) − h·min(t(1), r(n)).
`bench/forecast.py` compares this with all committed records that have a one-node time.

For a calibrated cluster, B and α are those of the calibration. Messages and bytes then overlap:
r(n) = max(s + 2(n−1)·α, 2(n−1)/n·S/B), where s is the time of a software call (see
`all_reduce_law`).
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nodewise.core.errors import UserError
from nodewise.core.intervals import DEVIATIONS
from nodewise.core.schema import read_json
from nodewise.predict.calibration import examine
from nodewise.predict.law import At, Floats
from nodewise.predict.laws.ring import RingAllReduce
from nodewise.predict.link_rates import PAYLOAD_SHARE
from nodewise.results.calibration import Calibration

RING_SHARE = 0.93
HIDDEN: Mapping[str, float] = {
    "multi_worker_mirrored": 0.0,
    "horovod": 0.2,
    "custom_loop": 0.2,
    "mpi": 0.5,
}
"""The hidden share h of each strategy with a ring: medians on the committed records."""
SPREAD = 0.081
"""Root mean square of log(measured/forecast) on the committed records."""


class Link(NamedTuple):
    """A link between nodes.

    Attributes:
        bytes_per_s: payload rate in bytes per second.
        latency_s: seconds per message.
        call_s: seconds of a software call. None if unknown; messages and bytes are then added
            instead of overlapped.
        title: name for readers.
    """

    bytes_per_s: float
    latency_s: float
    call_s: float | None = None
    title: str = ""


def ethernet(gbit: float, latency_s: float) -> Link:
    """Return an Ethernet link of a rate in Gbit/s."""
    rate = gbit * 1e9 / 8 * PAYLOAD_SHARE
    return Link(rate, latency_s, title=f"Ethernet, {gbit:g} Gbit/s")


LINKS: Mapping[str, Link] = {
    "1gbit": ethernet(1, 50e-6),
    "10gbit": ethernet(10, 30e-6),
    "25gbit": ethernet(25, 20e-6),
    "100gbit": ethernet(100, 10e-6),
    "hdr": Link(200e9 / 8, 2e-6, title="InfiniBand HDR"),
    "ndr": Link(400e9 / 8, 2e-6, title="InfiniBand NDR"),
    "nvlink": Link(300e9, 5e-6, title="NVLink 3"),
    "pcie": Link(16e9, 10e-6, title="PCIe 4.0"),
}
"""Known links by name, with rates of one direction.

InfiniBand is one port, NVLink is NVLink 3, and PCIe is half the rate of PCIe 4.0 x16.
"""


def parse_link(text: str) -> Link:
    """Return a link from its name, a rate such as `250mbit`, or the path of a calibration.json.

    Raises:
        UserError: the text is none of these, or the calibration has no all-reduces.
    """
    if text.endswith(".json"):
        return _calibrated(Path(text))
    found = re.fullmatch(r"(\d+\.?\d*)(m|g)bit", text.lower(), re.ASCII)
    if text.lower() in LINKS:
        return LINKS[text.lower()]
    if found is None or float(found[1]) <= 0:
        names = ", ".join(LINKS)
        raise UserError(
            f"--link {text[:40]}: must be one of {names}, a rate such as 250mbit, or a file that "
            "nodewise calibrate wrote (.json)"
        )
    return ethernet(float(found[1]) * (1.0 if found[2] == "g" else 1e-3), 50e-6)


def _calibrated(path: Path) -> Link:
    """Return the link that a calibration measured, in the nodes' own time."""
    calibration = read_json(Calibration, path, "--link needs a file of `nodewise calibrate`")
    rings = examine(calibration).all_reduces.get("ring") if calibration.status == "ok" else None
    if rings is None:
        raise UserError(f"--link {path}: has no all-reduces: it needs two nodes or more")
    own = rings.own_time
    return Link(own["bandwidth_bytes_per_s"] / RING_SHARE, own["latency_s"], own["software_s"])


def hidden_share(strategy: str) -> float:
    """Return the share h of the shorter of computing and sending that a strategy hides.

    Raises:
        UserError: the strategy has no ring.
    """
    if strategy not in HIDDEN:
        raise UserError(f"--strategy {strategy[:40]}: must be one of {', '.join(HIDDEN)}")
    return HIDDEN[strategy]


def forecast_rows(
    one_node_s: float,
    payload_bytes: float,
    batch: int,
    link: Link,
    nodes: Sequence[int],
    *,
    hidden: float = 0.0,
) -> list[dict[str, Any]]:
    """Return one row per number of nodes: step time, its 90 % interval, and speed-up.

    Args:
        one_node_s: seconds of a step on one node.
        payload_bytes: size of one gradient in bytes.
        batch: examples per node and step.
        link: the link between all nodes.
        nodes: the numbers of nodes.
        hidden: share of the shorter of computing and sending that is hidden; see `hidden_share`.
    """
    counts = np.array(nodes, dtype=np.float64)
    at = At.of(counts, batch, payload_bytes)
    messages = _ring_s(at, latency_s=link.latency_s)
    sent = _ring_s(at, seconds_per_byte=1 / (RING_SHARE * link.bytes_per_s))
    if link.call_s is None:
        ring = messages + sent
    else:
        ring = np.maximum(np.where(counts > 1, link.call_s, 0.0) + messages, sent)
    steps = one_node_s + ring - hidden * np.minimum(one_node_s, ring)
    rows = []
    for n, step_s in zip(nodes, steps.tolist(), strict=True):
        wider = float(np.exp(DEVIATIONS * SPREAD)) if n > 1 else 1.0
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


def _ring_s(at: At, **known: float) -> Floats:
    """Return the seconds of a ring all-reduce with `known` coefficients; all others are 0."""
    law = RingAllReduce()
    values = dict.fromkeys((p.name for p in law.parameters), 0.0) | known
    return np.asarray(law.communicate_s(values, at), dtype=np.float64)

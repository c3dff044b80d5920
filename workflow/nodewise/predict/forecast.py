"""Forecast step times on several nodes from the one-node time and a description of the link.

A ring all-reduce follows the computation: t(n) = t(1) + r(n), with
r(n) = 2(n−1)·α + 2(n−1)/n·S/B. B is the bandwidth that rings achieve: the rate of the link, less
frame headers, less 7 %. A strategy that sends the first gradients while it computes the others
hides a share h of the shorter of the two: t(n) = t(1) + r(n) − h·min(t(1), r(n)).
`bench/forecast.py` compares this with all committed records that have a one-node time. They are of
up to 8 emulated nodes. Beyond that, intervals widen by as much as those of published curves do.

For a calibrated cluster, B and α are those of the calibration. Messages and bytes then overlap:
r(n) = max(s + 2(n−1)·α, 2(n−1)/n·S/B), where s is the time of a software call (see
`all_reduce_law`).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nodewise.core.errors import UserError
from nodewise.core.intervals import DEVIATIONS
from nodewise.core.schema import read_json
from nodewise.core.units import counted, write_number, write_plain
from nodewise.predict.calibration import examine
from nodewise.predict.known_links import PAYLOAD_SHARE
from nodewise.predict.law import At, Floats
from nodewise.predict.laws.ring import RingAllReduce
from nodewise.predict.published_curves import Scaling, read_published
from nodewise.predict.similar_curves import SimilarCurves
from nodewise.results.calibration import Calibration

RING_SHARE = 0.93
SPREAD = 0.081
"""Root mean square of log(measured/forecast) on the committed records."""
CHECKED = 8
"""The most nodes of these records. Forecasts for more nodes are extrapolations."""
MOST_EXAMPLES, MOST_STEP_S, MOST_BYTES = 1e15, 1e7, 1e15
_LEAST_MBIT, _MOST_MBIT = 1e-3, 1e9


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
    mbit = float(found[1]) * (1e3 if found[2] == "g" else 1.0) if found else 0.0
    if not _LEAST_MBIT <= mbit <= _MOST_MBIT:
        names = ", ".join(LINKS)
        raise UserError(
            f"--link {text[:40]}: must be one of {names}, a rate such as 250mbit, or a file that "
            "nodewise calibrate wrote (.json)"
        )
    return ethernet(mbit / 1e3, 50e-6)


def _calibrated(path: Path) -> Link:
    """Return the link that a calibration measured, in the nodes' own time."""
    calibration = read_json(Calibration, path, "--link needs a file of `nodewise calibrate`")
    rings = examine(calibration).all_reduces.get("ring") if calibration.status == "ok" else None
    if rings is None:
        raise UserError(f"--link {path}: has no all-reduces: it needs two nodes or more")
    own = rings.own_time
    return Link(own["bandwidth_bytes_per_s"] / RING_SHARE, own["latency_s"], own["software_s"])


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

    One node has no interval: its step time is given. `kind` is `measured` there, `forecast` up to
    `CHECKED` nodes, and `extrapolated` beyond.

    Args:
        one_node_s: seconds of a step on one node.
        payload_bytes: size of one gradient in bytes.
        batch: examples per node and step.
        link: the link between all nodes.
        nodes: the numbers of nodes.
        hidden: share of the shorter of computing and sending that is hidden.

    Raises:
        UserError: the batch, the step time or the payload is not allowed.
    """
    if batch > MOST_EXAMPLES:
        raise UserError(f"--batch {batch!s:.40}: must be at most {MOST_EXAMPLES:g}")
    if not 0 < one_node_s <= MOST_STEP_S:
        raise UserError(f"--step-time {one_node_s:g}: must be above 0 s, at most {MOST_STEP_S:g} s")
    if not 0 <= payload_bytes <= MOST_BYTES:
        raise UserError(f"--payload {payload_bytes:g}: must be from 0 to {MOST_BYTES:g} bytes")
    steps_of = partial(_steps_s, one_node_s, payload_bytes, link, hidden)
    counts = np.array(nodes, dtype=np.float64)
    widths = np.exp(np.hypot(DEVIATIONS * SPREAD, _widening(steps_of, counts)))
    rows = []
    for n, step_s, wider in zip(nodes, steps_of(counts).tolist(), widths.tolist(), strict=True):
        rows.append(
            {
                "nodes": n,
                "batch_per_worker": batch,
                "step_time_s": step_s,
                "low": step_s / wider if n > 1 else None,
                "high": step_s * wider if n > 1 else None,
                "samples_per_s": n * batch / step_s,
                "speedup": n * one_node_s / step_s,
                "kind": _kind(n),
            }
        )
    return rows


def _kind(nodes: int) -> str:
    if nodes == 1:
        return "measured"
    return "forecast" if nodes <= CHECKED else "extrapolated"


def forecast_words(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say which number of nodes is fastest, and up to how many nodes forecasts were checked.

    Args:
        rows: as from `forecast_rows`.
    """
    fastest = max(rows, key=lambda row: row["samples_per_s"])
    nodes, rate = fastest["nodes"], write_plain(fastest["samples_per_s"])
    answer = f"Most examples per second: {rate} on {counted(nodes, 'node')}"
    if nodes > 1:
        alone_s = fastest["speedup"] * fastest["step_time_s"]  # for as many examples
        speedup, low, high = (
            write_number(alone_s / fastest[time], "×") for time in ("step_time_s", "high", "low")
        )
        answer += f", {speedup} as many as on one node (90 % interval {low} – {high})"
    words = [f"{answer}."]
    if rows[-1]["nodes"] > 1:
        words.append(f"Forecasts were checked on up to {CHECKED} emulated nodes.")
    if rows[-1]["nodes"] > CHECKED:
        words.append(
            "Those for more nodes are extrapolations: their intervals widen as much as those of "
            "published scaling curves do."
        )
    return words


def _steps_s(
    one_node_s: float, payload_bytes: float, link: Link, hidden: float, counts: Floats
) -> Floats:
    """Return the step times on numbers of nodes."""
    at = At.of(counts, 1, payload_bytes)
    messages = _ring_s(at, latency_s=link.latency_s)
    sent = _ring_s(at, seconds_per_byte=1 / (RING_SHARE * link.bytes_per_s))
    if link.call_s is None:
        ring = messages + sent
    else:
        ring = np.maximum(np.where(counts > 1, link.call_s, 0.0) + messages, sent)
    return np.asarray(one_node_s + ring - hidden * np.minimum(one_node_s, ring))


def _widening(steps_of: Callable[[Floats], Floats], counts: Floats) -> Floats:
    """Return how much the interval of log time widens on each side beyond `CHECKED` nodes."""
    far = counts > CHECKED
    wider = np.zeros(len(counts))
    if far.any():
        few = 2.0 ** np.arange(np.log2(CHECKED) + 1)
        line = Scaling(few, -np.log(steps_of(few)), few, np.ones(len(few)), strong=False)
        wider[far] = SimilarCurves(read_published()).widening(line, CHECKED, counts[far], 1.0)
    return wider


def _ring_s(at: At, **known: float) -> Floats:
    """Return the seconds of a ring all-reduce with `known` coefficients; all others are 0."""
    law = RingAllReduce()
    values = dict.fromkeys((p.name for p in law.parameters), 0.0) | known
    return np.asarray(law.communicate_s(values, at), dtype=np.float64)

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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nodewise.core.errors import UserError
from nodewise.core.intervals import DEVIATIONS
from nodewise.core.schema import read_json
from nodewise.predict.answers import Answers, Job
from nodewise.predict.calibration import examine
from nodewise.predict.fit import DRAWS
from nodewise.predict.known_links import PAYLOAD_SHARE
from nodewise.predict.law import Floats
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


def forecast(
    one_node_s: float,
    payload_bytes: float,
    link: Link,
    nodes: Sequence[int],
    job: Job,
    *,
    batch: float,
    hidden: float = 0.0,
) -> Answers:
    """Return the answers about a job on numbers of nodes. One node is always among them.

    One node has no interval: its step time is given. Numbers up to `CHECKED` are within the range
    on which forecasts were checked.

    Args:
        one_node_s: seconds of a step on one node.
        payload_bytes: size of one gradient in bytes.
        link: the link between all nodes.
        nodes: the numbers of nodes.
        job: the job.
        batch: examples per node and step.
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

    def steps_of(counts: Floats) -> Floats:
        ring = ring_s(counts, payload_bytes, link)
        return np.asarray(one_node_s + ring - hidden * np.minimum(one_node_s, ring))

    counts = np.unique(np.array([1, *nodes], dtype=np.float64))
    value = steps_of(counts)
    few = 2.0 ** np.arange(np.log2(CHECKED) + 1)
    line = Scaling(few, -np.log(steps_of(few)), few, np.ones(len(few)), strong=False)
    far = counts > CHECKED
    width = np.where(counts > 1, DEVIATIONS * SPREAD, 0.0)
    if far.any():
        similar = SimilarCurves(read_published())
        width[far] = np.hypot(width[far], similar.widening(line, CHECKED, counts[far], 1.0))
    chance = np.random.default_rng(DRAWS).standard_normal((DRAWS, 1))
    # no draw is faster than computing alone
    drawn = np.maximum(value * np.exp(chance * width / DEVIATIONS), one_node_s)
    steps, batches = np.vstack([value, drawn]), np.full_like(counts, batch)
    return Answers(job, counts, batches, steps, counts == 1, far, most_measured=1)


_KINDS = {"fitted": "measured", "predicted": "forecast"}


def forecast_rows(answers: Answers, nodes: Sequence[int]) -> list[dict[str, Any]]:
    """Return the rows of the JSON output for numbers of nodes.

    `kind` is `measured` on one node, `forecast` up to `CHECKED` nodes, and `extrapolated` beyond.
    """
    return [
        {
            "nodes": int(row["nodes"]),
            "batch_per_worker": row["batch_per_worker"],
            "step_time_s": row["step_s"],
            "low": row["step_s_low"],
            "high": row["step_s_high"],
            "samples_per_s": row["nodes"] * row["batch_per_worker"] / row["step_s"],
            **{name: row[name] for name in ("speedup", "speedup_low", "speedup_high")},
            "kind": _KINDS.get(row["kind"], row["kind"]),
        }
        for row in answers.table.to_dict("records")
        if row["nodes"] in nodes
    ]


def ring_s(nodes: Floats, payload_bytes: float, link: Link) -> Floats:
    """Return the seconds of a ring all-reduce on numbers of nodes."""
    messages = 2 * (nodes - 1) * link.latency_s
    sent = 2 * (nodes - 1) / nodes * payload_bytes / (RING_SHARE * link.bytes_per_s)
    if link.call_s is None:
        return np.asarray(messages + sent)
    return np.asarray(np.maximum(np.where(nodes > 1, link.call_s, 0.0) + messages, sent))

"""What `bench/peers` found: one JSON file, `Results`; `Exchanges` is that of `bench/all_reduce.py`.

Every interval is one of 90 %: a round, in which all ways were measured one right after the other,
is the unit of repetition, and a ratio is taken within a round. Rounds of `bench/peers` are few, so
that places share their spread, as points of curves do (`curve_intervals`).
"""

import math
import statistics
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Literal

import pandas as pd
from pydantic import Field

from nodewise.core.cell import Cluster, Frozen
from nodewise.core.intervals import median_interval, pooled_factors
from nodewise.core.units import counted
from nodewise.results.calibration import Collective
from nodewise.results.record import Kind, Provenance

PEERS = ("horovod", "ddp")
FILE = Path("data/bench/peers.json")  # of the comparison that is published
EXCHANGES_FILE = Path("data/bench/all_reduce.json")
LEVELS = {"added": 1.0, "of_longer": 1.2, "all_reduce": 1.08}


class Interval(Frozen):
    """A median over rounds, and both ends of its interval; they are none with too few rounds."""

    median: float
    low: float | None
    high: float | None
    rounds: int

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{self.median:.3f} (no interval, {counted(self.rounds, 'round')})"
        return f"{self.median:.3f} ({self.low:.3f} to {self.high:.3f}, {self.rounds} rounds)"


class SameWork(Frozen):
    """Mean losses of ten steps from the same weights on the same examples.

    `off` is their largest relative distance from those of the first way.
    """

    model: str
    way: str
    nodes: int
    losses: list[float]
    off: float


class Fit(Frozen):
    """Examples per second on one node, one core, no limits, by way and round (measured).

    `ratios` are those of `custom_loop` to each of the others.
    """

    kind: Literal["measured"] = "measured"
    model: str
    batch: int
    rates: dict[str, list[float]]
    ratios: dict[str, Interval]


class Run(Frozen):
    """One launch: wall seconds of a step, the mean over its timed steps on the slowest worker.

    `all_reduce_s` is the median time to sum a buffer as large as the gradient once all workers are
    there; none for a way without such a sum. `sent_bytes` are those of a node per step, mean over
    the nodes; none where they are not counted. `outside` names what was restless about the machine.
    """

    round: int
    model: str
    way: str
    nodes: int
    batch: int
    kind: Kind
    step_s: float
    all_reduce_s: float | None
    payload_bytes: int
    sent_bytes: float | None
    outside: list[str]


class StepTime(Frozen):
    """Wall seconds of a step."""

    kind: Kind
    model: str
    way: str
    nodes: int
    batch: int
    step_s: Interval


class Ratio(Frozen):
    """Seconds of one of our ways over those of a peer: below 1 is faster."""

    kind: Kind
    model: str
    way: str
    peer: str
    nodes: int
    batch: int
    ratio: Interval


class Added(Frozen):
    """What the exchange adds to a step: its wall seconds less those of a step on one node.

    `of_longer` is the step in units of the longer of a step on one node, which is all computing,
    and the all-reduce alone. It is 1 where one of them hides the other; none for a way without an
    all-reduce.
    """

    kind: Kind
    model: str
    way: str
    nodes: int
    batch: int
    added_s: Interval
    of_longer: Interval | None


class AllReduce(Frozen):
    """Seconds of an all-reduce over `wire_s`, what 2(n−1)/n of the payload takes of the link."""

    kind: Kind
    way: str
    nodes: int
    payload_bytes: int
    wire_s: float
    ratio: Interval


class Results(Frozen):
    """One comparison. All times are wall times; a node's own is `cluster.share` times as long.

    `ratios` are those of steps, `added_ratios` those of what the exchange adds. `levels` are the
    targets: the most that `added_ratios` may be, `of_longer` where computing and sending take about
    as long, and `all_reduces`.
    """

    schema_version: Literal[2] = 2
    started_at: datetime
    finished_at: datetime
    cluster: Cluster
    batch: int
    levels: dict[str, float]
    provenance: Provenance
    same_work: list[SameWork]
    fits: list[Fit]
    runs: list[Run] = Field(min_length=1)
    step_times: list[StepTime]
    ratios: list[Ratio]
    added: list[Added]
    added_ratios: list[Ratio]
    all_reduces: list[AllReduce]


class Exchange(Frozen):
    """Sums of `payload_bytes` by one collective: seconds, and bytes that left a node.

    Both in units of what a ring's 2(n−1)/n of the payload are: `ratio` of `wire_s`, what they take
    of the link, and `sent` of the bytes.
    """

    collective: Collective
    nodes: int
    payload_bytes: int
    wire_s: float
    ratio: Interval
    sent: float


class Exchanges(Frozen):
    """One run of `bench/all_reduce.py`; `level` is the most that ratios may be."""

    schema_version: Literal[1] = 1
    kind: Kind
    started_at: datetime
    finished_at: datetime
    cluster: Cluster
    level: float = LEVELS["all_reduce"]
    provenance: Provenance
    found: list[Exchange] = Field(min_length=1)


def interval(values: Sequence[float]) -> Interval:
    """Return the median of one value a round, of many rounds."""
    series = pd.Series(values)
    low, high = median_interval(series)
    return _interval(float(series.median()), low, high, len(series))


def intervals(groups: Sequence[Sequence[float]]) -> list[Interval]:
    """Return the median of each group of one value a round, of few rounds: they share a spread."""
    medians = [statistics.median(group) for group in groups]
    return [
        _interval(median, median / factor, median * factor, len(group))
        for group, median, factor in zip(groups, medians, pooled_factors(groups), strict=True)
    ]


def _interval(median: float, low: float, high: float, rounds: int) -> Interval:
    known = not math.isnan(low)
    ends = {"low": low, "high": high} if known else {"low": None, "high": None}
    return Interval(median=median, rounds=rounds, **ends)


def wire_seconds(nodes: int, payload_bytes: int, rate_mbit: float) -> float:
    """Return what a ring's bytes take of a link: 2(n−1)/n·S over its rate.

    Source: P. Patarasuk and X. Yuan, Bandwidth optimal all-reduce algorithms for clusters of
    workstations, J. Parallel Distrib. Comput. 69 (2009), lower bound of section 3.
    """
    return 2 * (nodes - 1) / nodes * 8 * payload_bytes / (rate_mbit * 1e6)

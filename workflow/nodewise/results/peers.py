"""Schemas of the results of the benchmark `bench/peers`.

All intervals are 90 % intervals. The unit of repetition is a round, in which all ways (strategies
and peers) are measured one right after another. Ratios are taken within a round. Because
`bench/peers` has few rounds, its medians share a pooled spread, like points of curves
(`curve_intervals`).
"""

import math
import statistics
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import Field

from nodewise.core.cell import Cluster, Frozen
from nodewise.core.intervals import pooled_factors
from nodewise.core.units import counted
from nodewise.results.record import Kind, Provenance

PEERS = ("horovod", "ddp")
FILE = Path("data/bench/peers.json")  # the published comparison
LEVELS = {"added": 1.0, "of_longer": 1.2, "all_reduce": 1.08}


class Interval(Frozen):
    """A median over rounds and the ends of its interval, which are None with too few rounds."""

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

    `off` is the largest relative difference from the losses of the first way.
    """

    model: str
    way: str
    nodes: int
    losses: list[float]
    off: float


class Fit(Frozen):
    """Measured examples per second on one node with one core and no limits, by way and round.

    `ratios` are those of `custom_loop` to each other way.
    """

    kind: Literal["measured"] = "measured"
    model: str
    batch: int
    rates: dict[str, list[float]]
    ratios: dict[str, Interval]


class Run(Frozen):
    """One launch of a way.

    `step_s` is the mean of the timed steps of the slowest worker, in wall seconds. `all_reduce_s`
    is the median time to sum a buffer of the size of the gradient, after all workers have arrived;
    None for a way without all-reduce. `sent_bytes` is the mean over nodes of the bytes that a node
    sends per step; None if not counted. `outside` has a message for each quiet-machine threshold
    that failed.
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
    """The step time of a way, in wall seconds."""

    kind: Kind
    model: str
    way: str
    nodes: int
    batch: int
    step_s: Interval


class Ratio(Frozen):
    """The time of one of our ways over that of a peer. Below 1, ours is faster."""

    kind: Kind
    model: str
    way: str
    peer: str
    nodes: int
    batch: int
    ratio: Interval


class Added(Frozen):
    """The time that the exchange adds to a step.

    `added_s` is the step time minus that on one node, in wall seconds. `of_longer` is the step time
    relative to the longer of two times: a step on one node, which is only computing, and the
    all-reduce alone. It is 1 if one completely hides the other, and None for a way without
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
    """The time of an all-reduce relative to `wire_s`.

    `wire_s` is the time that 2(n−1)/n of the payload takes on the link, in seconds.
    """

    kind: Kind
    way: str
    nodes: int
    payload_bytes: int
    wire_s: float
    ratio: Interval


class Results(Frozen):
    """One comparison with peers.

    All times are wall times; multiply by `cluster.share` to get a node's own time. `ratios` are
    those of step times, `added_ratios` those of the time that the exchange adds. `levels` are the
    targets, as upper limits: of `added_ratios`, of `of_longer` where computing and sending take
    about equally long, and of `all_reduces`.
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


def intervals(groups: Sequence[Sequence[float]]) -> list[Interval]:
    """Return medians and intervals of groups with one value per round, for few rounds.

    The groups share a pooled spread.
    """
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
    """Return the seconds that a ring's bytes take on a link: 2(n−1)/n·S over its rate.

    Source: P. Patarasuk and X. Yuan, Bandwidth optimal all-reduce algorithms for clusters of
    workstations, J. Parallel Distrib. Comput. 69 (2009), lower bound of section 3.
    """
    return 2 * (nodes - 1) / nodes * 8 * payload_bytes / (rate_mbit * 1e6)

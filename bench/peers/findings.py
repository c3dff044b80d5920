"""Results of the launches: medians over rounds, ratios to the peers, and all of them in words."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from nodewise.cluster.kinds.emulated import Emulated
from nodewise.results.peers import (
    LEVELS,
    PEERS,
    Added,
    AllReduce,
    Fit,
    Interval,
    Ratio,
    Results,
    Run,
    SameWork,
    StepTime,
    intervals,
    wire_seconds,
)

# a setting in which ways were measured: its description, and way -> round -> run
Place = tuple[dict[str, Any], dict[str, dict[int, Run]]]


@dataclass
class Findings:
    """The measurements so far."""

    same_work: list[SameWork] = field(default_factory=list)
    fits: list[Fit] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)


def results_of(findings: Findings, *, cluster: Emulated, **about: Any) -> Results:
    """Return the results of all findings; `about` are the remaining fields."""
    runs = findings.runs
    return Results(
        **vars(findings),
        **about,
        cluster=cluster,
        levels=LEVELS,
        step_times=step_times(runs),
        ratios=ratios(runs, step_seconds),
        added=added(runs),
        added_ratios=ratios(runs, Exchanged(runs).added_s),
        all_reduces=all_reduces(runs, cluster.link.rate_mbit),
    )


def fit_ratios(rates: dict[str, list[float]], ours: str) -> dict[str, Interval]:
    """Return the ratio of the rate of `ours` to that of each other way, computed round by round."""
    others = {
        name: [a / b for a, b in zip(rates[ours], other, strict=True)]
        for name, other in rates.items()
        if name != ours
    }
    return dict(zip(others, intervals([*others.values()]), strict=True))


def step_times(runs: Sequence[Run]) -> list[StepTime]:
    """Return the step time of each way in each place."""
    found = [
        (place | {"way": way}, [run.step_s for run in of.values()])
        for place, ways in places(runs)
        for way, of in ways.items()
    ]
    spreads = intervals([times for _, times in found])
    return [StepTime(**of, step_s=one) for (of, _), one in zip(found, spreads, strict=True)]


def step_seconds(run: Run) -> float:
    """Return the step time of a run, in seconds."""
    return run.step_s


class Exchanged:
    """Compares runs on several nodes with those on one node in the same round."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._alone = {self._key(run): run.step_s for run in runs if run.nodes == 1}

    @staticmethod
    def _key(run: Run) -> tuple[str, str, int, int]:
        return run.model, run.way, run.batch, run.round

    def added_s(self, run: Run) -> float | None:
        """Return how much longer a step takes than on one node; None if that is not known."""
        alone = self._alone.get(self._key(run))
        return None if run.nodes == 1 or alone is None else run.step_s - alone

    def of_longer(self, run: Run) -> float | None:
        """Return a step in units of the longer of computing and sending; None if not known."""
        alone = self._alone.get(self._key(run))
        if run.nodes == 1 or alone is None or run.all_reduce_s is None:
            return None
        return run.step_s / max(alone, run.all_reduce_s)


def added(runs: Sequence[Run]) -> list[Added]:
    """Return the time that the exchange adds to a step, per way and place with several nodes."""
    exchanged = Exchanged(runs)
    found = []
    for place, ways in places(runs):
        for way, of in ways.items():
            more = [value for run in of.values() if (value := exchanged.added_s(run)) is not None]
            longer = [value for run in of.values() if (value := exchanged.of_longer(run))]
            if more and min(more) > 0:
                found.append((place | {"way": way}, more, longer))
    more_s = intervals([more for _, more, _ in found])
    of_longer = iter(intervals([longer for _, _, longer in found if longer]))
    return [
        Added(**of, added_s=one, of_longer=next(of_longer) if longer else None)
        for (of, _, longer), one in zip(found, more_s, strict=True)
    ]


def ratios(runs: Sequence[Run], seconds: Callable[[Run], float | None]) -> list[Ratio]:
    """Return the ratios of our ways' `seconds` to those of peers measured in the same place."""
    found = [
        (place | {"way": way, "peer": peer}, both)
        for place, ways in places(runs)
        for way, peer in product(ways, PEERS)
        if way not in PEERS and peer in ways
        if (both := quotients(ways[way], ways[peer], seconds))
    ]
    spreads = intervals([both for _, both in found])
    return [Ratio(**of, ratio=one) for (of, _), one in zip(found, spreads, strict=True)]


def quotients(
    ours: dict[int, Run], theirs: dict[int, Run], seconds: Callable[[Run], float | None]
) -> list[float]:
    """Return the ratios of `seconds` for each round that has both; empty if one is not > 0."""
    both = [
        (seconds(run), seconds(theirs[number])) for number, run in ours.items() if number in theirs
    ]
    if not all(one is not None and one > 0 for pair in both for one in pair):
        return []
    return [one / other for one, other in both]


def all_reduces(runs: Sequence[Run], rate_mbit: float) -> list[AllReduce]:
    """Return the time of each way's all-reduces, in units of the wire time."""
    found = []
    for place, ways in places([run for run in runs if run.nodes > 1]):
        for way, of in ways.items():
            payload = next(iter(of.values())).payload_bytes
            wire_s = wire_seconds(place["nodes"], payload, rate_mbit)
            times = [run.all_reduce_s / wire_s for run in of.values() if run.all_reduce_s]
            if times:
                about = {key: place[key] for key in ("kind", "nodes")}
                about |= {"way": way, "payload_bytes": payload, "wire_s": wire_s}
                found.append((about, times))
    spreads = intervals([times for _, times in found])
    return [AllReduce(**of, ratio=one) for (of, _), one in zip(found, spreads, strict=True)]


def places(runs: Sequence[Run]) -> list[Place]:
    """Return each place in which ways were measured, with its runs."""
    found: dict[tuple[Any, ...], dict[str, dict[int, Run]]] = {}
    for run in runs:
        key = run.model, run.nodes, run.batch, run.kind
        found.setdefault(key, {}).setdefault(run.way, {})[run.round] = run
    names = ("model", "nodes", "batch", "kind")
    return [(dict(zip(names, key, strict=True)), found[key]) for key in sorted(found)]


def work_line(work: SameWork) -> str:
    """Return the check as text."""
    loss = f"loss {work.losses[0]:.4f} to {work.losses[-1]:.4f}"
    return f"{work.model}, {work.way}, {work.nodes} nodes: {loss}, off by {work.off:.1e}"


def run_line(run: Run) -> str:
    """Return the run as text."""
    where = f"round {run.round}: {run.model}, {run.nodes} nodes, {run.way}"
    return "; ".join([f"{where}: {1000 * run.step_s:.0f} ms a step", *run.outside])


def lines(found: Results) -> list[str]:
    """Return the findings as text, one per line."""
    return [
        *(f"{r.model}, {r.nodes} nodes: {r.way} / {r.peer} = {r.ratio}" for r in found.ratios),
        *(
            f"{r.model}, {r.nodes} nodes, added to a step: {r.way} / {r.peer} = {r.ratio}"
            for r in found.added_ratios
        ),
        *(
            f"{a.model}, {a.nodes} nodes, {a.way}: step / longer of computing and sending = "
            f"{a.of_longer}"
            for a in found.added
            if a.of_longer
        ),
        *(
            f"{a.payload_bytes:,} bytes, {a.nodes} nodes, {a.way}: all-reduce / wire = {a.ratio}"
            for a in found.all_reduces
        ),
        *(
            f"{f.model}, batch {f.batch}, one node: custom_loop / {name} = {ratio}"
            for f in found.fits
            for name, ratio in f.ratios.items()
        ),
    ]

"""The law of all-reduces, fitted to those of a calibration."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import sympy

from nodewise.core.intervals import median_error, pooled_factors
from nodewise.predict.fit import fit
from nodewise.predict.law import LINK, Law, Parameter, S, alpha, beta, n, positive
from nodewise.predict.laws.collectives import RingAllReduce
from nodewise.predict.points import Points
from nodewise.results.calibration import Calibration, Collective


class ConsecutiveAllReduces(Law):
    """T = max(s + 2(n−1)·α, 2(n−1)/n·S·β): the time of one of many all-reduces in a row.

    Software processes one piece of the payload while another is on the link, so the time is the
    longer of the two, not their sum. The law counts the 2(n−1) messages of `RingAllReduce`, and one
    call of the software. An exchange in which each node sends to each other one twice has as many
    messages.
    """

    name = "all_reduces"
    title = "Consecutive all-reduces"
    source = RingAllReduce.source
    parameters = (Parameter("s", "software_s", "s", "link", "a call of the software"), *LINK)
    step = sympy.Max(positive("s") + 2 * (n - 1) * alpha, 2 * S * beta * (n - 1) / n)


_STARTS = (0.5, 3.0)  # a fast link begins below the software's time, and would not be seen


@dataclass(frozen=True)
class AllReduces:
    """The all-reduces of one collective, in the node's own time (wall time × share).

    Attributes:
        times: by `nodes` and `payload_bytes`, the median `seconds` of the `launches` with its
            interval `low` and `high`, and the seconds of the `fitted` law.
        coefficients: `software_s`, `latency_s` and `bandwidth_bytes_per_s` of the law, each with
            the ends of its 90 % interval, `_low` and `_high`.
    """

    times: pd.DataFrame
    coefficients: dict[str, float]


def all_reduces(calibration: Calibration) -> dict[Collective, AllReduces]:
    """Return the all-reduces of each collective in a calibration. The result is deterministic."""
    share = calibration.cluster.share
    measured: dict[Collective, list[tuple[int, int, float]]] = {}
    for one in calibration.launches:
        for block in one.all_reduces:
            row = one.nodes, block.payload_bytes, share * block.seconds_each
            measured.setdefault(block.collective, []).append(row)
    return {name: _fitted(rows) for name, rows in measured.items()}


def _fitted(rows: list[tuple[int, int, float]]) -> AllReduces:
    """Fit the law to nodes, payload and seconds of all-reduces."""
    axes = ["nodes", "payload_bytes"]
    launches = pd.DataFrame(rows, columns=[*axes, "own"]).groupby(axes)["own"]
    times = launches.agg(seconds="median", launches="size").reset_index()
    spread = launches.apply(lambda own: np.log(own).std(ddof=1)).to_numpy()
    noise = spread * [median_error(count) for count in times["launches"]]
    at = times["nodes"], 0, times["payload_bytes"], times["seconds"]
    points = Points.of(*at, noise=noise)
    law = fit(ConsecutiveAllReduces(), points, starts=_STARTS)
    factors = pooled_factors([own.to_numpy() for _, own in launches])
    found: dict[str, float] = {}
    for name, label in law.coefficients:
        found[name] = law.value(name, label)
        found[f"{name}_low"], found[f"{name}_high"] = law.interval(name, label)
    for end, other in (("", ""), ("_low", "_high"), ("_high", "_low")):
        per_byte = found.pop(f"seconds_per_byte{other}")
        found[f"bandwidth_bytes_per_s{end}"] = 1 / per_byte if per_byte > 0 else np.nan
    return AllReduces(
        times.assign(
            low=times["seconds"] / factors,
            high=times["seconds"] * factors,
            fitted=law.evaluate(points),
        ),
        found,
    )

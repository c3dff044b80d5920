"""Find the measurement that narrows down the best number of nodes most per machine minute.

Every draw of a fit is one possible truth. If draws disagree about the best number of nodes, the
choice that is best on average loses time in most of them: the regret. A further measurement
excludes some draws. The regret that this saves is the value of the measurement (R. A. Howard,
Information value theory, IEEE Trans. Syst. Sci. Cybern. 2, 1966).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nodewise.core.units import counted, write_percent
from nodewise.predict.answers import Answers, TrainingJob
from nodewise.predict.curve_predictions import find_answers, most_efficient
from nodewise.predict.fit_file import FitFile
from nodewise.predict.points import Floats
from nodewise.predict.question_files import Row
from nodewise.results.curves import Curve

SETUP_S = 60.0
STEPS = 100
"""Seconds to start a measurement, and the number of steps it takes."""
_ENOUGH = 0.01  # regret below which no measurement is recommended, as a share of the time
_FARTHEST = 4  # times the most measured nodes: beyond that a law says little
_BINS = 10  # bins of the measured step time, within which draws are not told apart
_CHANCE = 0.05  # savings up to this share of the regret may be due to chance
_LEAST_S = 1e-12
_SUPERLINEAR = 1.05  # measured efficiencies above this are no noise


def next_rows(
    file: FitFile,
    nodes: Sequence[int],
    *,
    batch: float | None = None,
    global_batch: float | None = None,
) -> list[Row]:
    """Return what to measure next to find the fastest number of nodes, by curve and batch.

    Columns: `batch_per_worker` is the batch, None if it changes with the nodes. `nodes` is the
    number to measure, or None if no measurement is worth it. `regret` is the present loss on
    average, as a share of the time of an epoch. `saved` is the regret that the measurement would
    save, and `minutes` its machine time: nodes × minutes. `fastest` is the number that loses least
    so far. `answer` says this in words. Batches are as for `find_answers`.
    """
    found = find_answers(
        file, nodes, TrainingJob(), batch=batch, global_batch=global_batch, whole_machines=True
    )
    return [_row(curve, answers, np.isin(answers.nodes, nodes)) for curve, answers in found]


def _row(curve: Curve, answers: Answers, asked: NDArray[np.bool_]) -> Row:
    counts, batch = answers.nodes[asked], answers.batch[asked]
    drawn = np.maximum(answers.time[1:, asked], _LEAST_S)
    # if only whole epochs were timed, a measurement is one more epoch
    measured_s = STEPS * answers.step_s[1:, asked] if curve.in_seconds else drawn
    minutes = counts * (SETUP_S + np.median(measured_s, axis=0)) / 60
    # a shared batch must be divisible by the number of nodes
    whole = np.isclose(batch, np.round(batch)) | np.isin(batch, curve.batches)
    possible = whole | (not curve.batch_known)
    measured = {(p.nodes, round(p.batch_per_worker, 6)) for p in curve.measured}
    points = zip(counts.astype(int).tolist(), batch.tolist(), strict=True)
    known = [n for n, b in points if (n, round(b, 6)) in measured] or curve.nodes
    best = best_measurement(
        counts, drawn, minutes, known=known, noise=answers.noise, possible=possible
    )
    mean = losses_of(drawn).mean(axis=0)
    regret, fastest = float(mean.min()), int(counts[mean.argmin()])
    so_far = f"{counted(fastest, curve.node)} would lose {write_percent(regret)} on average"
    after = np.flatnonzero(possible & (counts > known[-1]))
    if best is not None:
        what = f"so far {so_far}, and this saves {write_percent(best['saved'] / regret)} of it"
    elif most_efficient(curve) > _SUPERLINEAR and fastest > known[-1] and len(after):
        twice = after[counts[after] >= 2 * known[-1]]
        at = twice[0] if len(twice) else after[-1]
        best = {"nodes": int(counts[at]), "saved": regret, "minutes": float(minutes[at])}
        what = "no formula explains an efficiency over 100 %, so what comes after it is unknown"
    else:
        told = "is known well enough" if regret < _ENOUGH else "is not told by one measurement"
        what = f"Nothing: the fastest number {told}; {so_far}."
    if best:
        minutes_told = f"it takes {best['minutes']:.3g} machine minutes"
        what = f"Measure {counted(best['nodes'], curve.node)} next: {what}; {minutes_told}."
    batches = float(batch[0]) if curve.batch_known and not np.ptp(batch) else None
    about = {"curve": curve.name, "batch_per_worker": batches, "regret": regret}
    return about | {"fastest": fastest, "nodes": None} | (best or {}) | {"answer": what}


def losses_of(example_s: Floats) -> Floats:
    """Return relative losses against the fastest of times per example, both (draws, points)."""
    return np.asarray(example_s / example_s.min(axis=1, keepdims=True) - 1)


def best_measurement(
    counts: Floats,
    drawn: Floats,
    minutes: Floats,
    *,
    known: Sequence[int],
    noise: float,
    possible: NDArray[np.bool_] | None = None,
) -> Row | None:
    """Return the best measurement as `nodes`, `saved` and `minutes`; None if none is worth it.

    Args:
        counts: numbers of nodes, (points,).
        drawn: equally likely times for the same examples, (draws, points).
        minutes: machine minutes of measuring each number, (points,).
        known: the measured numbers of nodes, ascending.
        noise: relative standard deviation of a measured step.
        possible: which numbers can be measured, (points,); default: all.
    """
    losses = losses_of(drawn)
    regret = losses.mean(axis=0).min()
    if regret < _ENOUGH:
        return None
    rows = [
        {"nodes": n, "saved": _saved(n, drawn[:, i], losses, noise), "minutes": float(minutes[i])}
        for i, n in enumerate(counts.astype(int).tolist())
        if n not in known and n <= _FARTHEST * known[-1] and (possible is None or possible[i])
    ]
    worth = [row for row in rows if row["saved"] > _CHANCE * regret]
    return max(worth, key=lambda row: row["saved"] / row["minutes"], default=None)


def _saved(n: int, drawn: Floats, losses: Floats, noise: float) -> float:
    """Return how much regret a measurement on n nodes is expected to save."""
    chance = np.random.default_rng(n).standard_normal(len(drawn))
    seen = np.argsort(np.log(drawn) + noise * chance)
    after = sum(
        float(losses[bin_].mean(axis=0).min()) * len(bin_)
        for bin_ in np.array_split(seen, min(_BINS, len(seen)))
    )
    return max(float(losses.mean(axis=0).min()) - after / len(seen), 0.0)

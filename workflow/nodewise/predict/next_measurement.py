"""Which measurement would narrow the answer down most, per minute of machine time.

Every draw of a fit is a world in which the law holds. As long as they disagree about the best
number of nodes, whoever takes the one that is best on average loses something in most of them: the
regret. Measuring a step rules some draws out. How much regret that saves is the value of
the measurement (R. A. Howard, Information value theory, IEEE Trans. Syst. Sci. Cybern. 2, 1966).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nodewise.predict.curve_predictions import CurvePredictions, batch_of, candidates
from nodewise.predict.fit_file import FitFile
from nodewise.predict.law import Floats
from nodewise.results.curves import Curve

SETUP_S = 60.0
STEPS = 100
"""A measurement takes so long to start, and then so many steps."""
ENOUGH = 0.01
"""Regret that nobody needs to measure for, as a share of the time."""
_FARTHEST = 4  # times the largest number that was measured: farther on a law says little
_BINS = 10  # of a measured step: draws of one bin are alike
_CHANCE = 0.05  # of the regret: so much is saved by how the draws happen to fall
_LEAST_S = 1e-12

Row = dict[str, Any]


def next_rows(file: FitFile, nodes: Sequence[int], setup_s: float = SETUP_S) -> list[Row]:
    """Return a row per curve: what to measure next so that the fastest number is known best.

    `nodes` is None if the answer is known well enough. `regret` is what is lost on average today,
    as a share of the time of an epoch; `saved` how much of it the measurement would save, `minutes`
    the machine time that it takes: nodes times minutes.

    Args:
        file: the fits.
        nodes: the numbers of nodes among which the fastest is sought.
        setup_s: seconds until a measurement times steps.
    """
    predictions = CurvePredictions(file)
    return [_row(predictions, curve, nodes, setup_s) for curve in file.curves]


def _row(predictions: CurvePredictions, curve: Curve, nodes: Sequence[int], setup_s: float) -> Row:
    counts = np.array(sorted({*candidates(curve, nodes)}), dtype=np.float64)
    batch = batch_of(curve, counts)
    drawn = np.maximum(predictions.draw(curve, counts, batch), _LEAST_S)
    losses = losses_of(drawn / (counts * batch))
    # where only whole runs were timed, one is measured again
    measured_s = STEPS * drawn if curve.in_seconds else drawn / (counts * batch)
    minutes = counts * (setup_s + np.median(measured_s, axis=0)) / 60
    best = best_measurement(
        counts, drawn, losses, minutes, known=curve.nodes, noise=predictions.noise(curve)
    )
    regret = float(losses.mean(axis=0).min())
    about: Row = {"curve": curve.name, "regret": regret, "nodes": None}
    if best is None:
        fastest = int(counts[np.argmin(losses.mean(axis=0))])
        return about | {"answer": _nothing(fastest, regret, f"{curve.node}s")}
    return about | best | {"answer": _answer(best, regret, f"{curve.node}s")}


def losses_of(example_s: Floats) -> Floats:
    """Return what numbers of nodes lose against the fastest, as a share, by the time per example.

    Args:
        example_s: (draws, points).
    """
    return np.asarray(example_s / example_s.min(axis=1, keepdims=True) - 1)


def best_measurement(
    counts: Floats,
    drawn: Floats,
    losses: Floats,
    minutes: Floats,
    *,
    known: Sequence[int],
    noise: float,
) -> Row | None:
    """Return what to measure next, with `nodes`, `saved` and `minutes`; None: nothing is worth it.

    Args:
        counts: numbers of nodes, (points,).
        drawn: equally likely step times, (draws, points).
        losses: see `losses_of`, (draws, points).
        minutes: what measuring each takes of the machines, (points,).
        known: the numbers of nodes that were measured, ascending.
        noise: relative standard deviation of a measured step.
    """
    regret = losses.mean(axis=0).min()
    if regret < ENOUGH:
        return None
    rows = [
        {
            "nodes": int(n),
            "saved": _saved(int(n), drawn[:, i], losses, noise),
            "minutes": float(minutes[i]),
        }
        for i, n in enumerate(counts)
        if n not in known and n <= _FARTHEST * known[-1]
    ]
    worth = [row for row in rows if row["saved"] > _CHANCE * regret]
    return max(worth, key=lambda row: row["saved"] / row["minutes"], default=None)


def _saved(n: int, drawn: Floats, losses: Floats, noise: float) -> float:
    """Return what measuring a step on n nodes would save of the regret."""
    chance = np.random.default_rng(n).standard_normal(len(drawn))
    seen = np.argsort(np.log(drawn) + noise * chance)
    after = sum(
        float(losses[bin_].mean(axis=0).min()) * len(bin_)
        for bin_ in np.array_split(seen, min(_BINS, len(seen)))
    )
    return max(float(losses.mean(axis=0).min()) - after / len(seen), 0.0)


def _nothing(fastest: int, regret: float, noun: str) -> str:
    if regret < ENOUGH:
        known = f"the fastest number of {noun} is known well enough"
    else:
        known = f"no further measurement would tell the fastest number of {noun} apart"
    return f"Nothing: {known}: {fastest:,} costs {regret:.1%} at most on average."


def _answer(best: Row, regret: float, noun: str) -> str:
    share = best["saved"] / regret
    return (
        f"Measure {best['nodes']:,} {noun} next: the best number is not known, which costs "
        f"{regret:.0%} of the time on average, and this would save {share:.0%} of that for "
        f"{best['minutes']:.3g} minutes of machine time."
    )

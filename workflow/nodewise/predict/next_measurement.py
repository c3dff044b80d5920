"""Find the measurement that narrows down the best number of nodes most per machine minute.

Every draw of a fit is one possible truth. If draws disagree about the best number of nodes, the
choice that is best on average loses time in most of them: the regret. A further measurement
excludes some draws. The regret that this saves is the value of the measurement (R. A. Howard,
Information value theory, IEEE Trans. Syst. Sci. Cybern. 2, 1966).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodewise.core.units import counted
from nodewise.predict.curve_predictions import CurvePredictions, batch_of, candidates
from nodewise.predict.fit_file import FitFile
from nodewise.predict.law import Floats
from nodewise.predict.optimum import MOST_SURE
from nodewise.results.curves import Curve

SETUP_S = 60.0
STEPS = 100
"""Default seconds to start a measurement, and the number of steps it takes."""
ENOUGH = 0.01
"""Regret below which no measurement is recommended, as a share of the time."""
_FARTHEST = 4  # times the most measured nodes: beyond that a law says little
_BINS = 10  # bins of the measured step time, within which draws are not told apart
_CHANCE = 0.05  # savings up to this share of the regret may be due to chance
_LEAST_S = 1e-12

Row = dict[str, Any]


def next_rows(file: FitFile, nodes: Sequence[int], setup_s: float = SETUP_S) -> list[Row]:
    """Return one row per curve: what to measure next to find the fastest number of nodes.

    Columns: `nodes` is the number to measure, or None if no measurement is worth it. `regret` is
    the present loss on average, as a share of the time of an epoch. `saved` is the regret that the
    measurement would save, and `minutes` its machine time: nodes × minutes. `answer` says this in
    words.

    Args:
        file: the fits.
        nodes: the numbers of nodes among which the fastest is sought.
        setup_s: seconds before a measurement begins to time steps.
    """
    predictions = CurvePredictions(file)
    return [_row(predictions, curve, nodes, setup_s) for curve in file.curves]


def _row(predictions: CurvePredictions, curve: Curve, nodes: Sequence[int], setup_s: float) -> Row:
    counts = np.array(sorted({*candidates(curve, nodes)}), dtype=np.float64)
    batch = batch_of(curve, counts)
    drawn = np.maximum(predictions.draw(curve, counts, batch), _LEAST_S)
    losses = losses_of(drawn / (counts * batch))
    # if only whole epochs were timed, a measurement is one more epoch
    measured_s = STEPS * drawn if curve.in_seconds else drawn / (counts * batch)
    minutes = counts * (setup_s + np.median(measured_s, axis=0)) / 60
    # a shared batch must be divisible by the number of nodes
    whole = np.isclose(batch, np.round(batch)) | np.isin(batch, curve.batches)
    best = best_measurement(
        counts,
        drawn,
        losses,
        minutes,
        known=curve.nodes,
        noise=predictions.noise(curve),
        possible=whole if curve.batch_known else None,
    )
    regret = float(losses.mean(axis=0).min())
    about: Row = {"curve": curve.name, "regret": regret, "nodes": None}
    if best is None:
        fastest = int(counts[np.argmin(losses.mean(axis=0))])
        return about | {"answer": _nothing(fastest, regret, f"{curve.node}s")}
    answer = _answer(best, _likeliest(curve, counts, losses), regret, curve.node)
    return about | best | {"answer": answer}


def _likeliest(curve: Curve, counts: Floats, losses: Floats) -> tuple[int, float]:
    """Return the number that is most probably the fastest, and its probability."""
    shares = np.bincount(losses.argmin(axis=1), minlength=len(counts)) / len(losses)
    number, probability = int(counts[shares.argmax()]), float(shares.max())
    within = curve.nodes[0] <= number <= curve.nodes[-1]
    return number, probability if within else min(probability, MOST_SURE)


def losses_of(example_s: Floats) -> Floats:
    """Return the relative loss of each number of nodes against the fastest, (draws, points).

    Args:
        example_s: times per example, (draws, points).
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
    possible: NDArray[np.bool_] | None = None,
) -> Row | None:
    """Return the best measurement as `nodes`, `saved` and `minutes`; None if none is worth it.

    Args:
        counts: numbers of nodes, (points,).
        drawn: equally likely step times, (draws, points).
        losses: as from `losses_of`, (draws, points).
        minutes: machine minutes of measuring each number, (points,).
        known: the measured numbers of nodes, ascending.
        noise: relative standard deviation of a measured step.
        possible: which numbers can be measured, (points,); default: all.
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


def _nothing(fastest: int, regret: float, noun: str) -> str:
    if regret < ENOUGH:
        known = f"the fastest number of {noun} is known well enough"
    else:
        known = f"no further measurement would tell the fastest number of {noun} apart"
    return f"Nothing: {known}: {fastest:,} costs {regret:.1%} at most on average."


def _answer(best: Row, likeliest: tuple[int, float], regret: float, noun: str) -> str:
    number, probability = likeliest
    return (
        f"Measure {counted(best['nodes'], noun)} next. So far {counted(number, noun)} would be the "
        f"fastest with probability {probability:.2f}, but any choice takes at least {regret:.0%} "
        "longer than the fastest, on average over what the measurements leave possible. This "
        f"measurement would save {best['saved'] / regret:.0%} of that, for {best['minutes']:.3g} "
        "minutes of machine time."
    )

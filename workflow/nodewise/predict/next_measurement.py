"""Which measurement would narrow the answer down most, per minute of machine time.

Every draw of a fit is a world in which the law holds. As long as they disagree about the best
number of nodes, whoever takes the one that is best on average loses something in most of them: the
regret. Measuring a step tells some draws from others. How much regret that saves is the value of
the measurement (R. A. Howard, Information value theory, IEEE Trans. Syst. Sci. Cybern. 2, 1966).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nodewise.predict.fit import Fit
from nodewise.predict.fit_file import FitFile
from nodewise.predict.law import At, Floats
from nodewise.results.curves import Curve

SETUP_S = 60.0
STEPS = 100
"""A measurement takes so long to start, and then so many steps."""
ENOUGH = 0.01
"""Regret that nobody needs to measure for, as a share of the time."""
_FARTHEST = 4  # times the largest number that was measured: farther on a law tells little
_BINS = 10  # of a measured step, between which draws are told apart
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
    return [_row(curve, file.fit_of(curve), nodes, setup_s) for curve in file.curves]


def _row(curve: Curve, fitted: Fit, nodes: Sequence[int], setup_s: float) -> Row:
    counts = np.unique(np.array([*nodes], dtype=np.int64))
    batch = _batch(curve, counts)
    step_s = np.maximum(
        fitted.draw(At.of(counts, batch, curve.payload), curve.name, curve.link), _LEAST_S
    )
    losses = step_s / (counts * batch)  # seconds of an example
    losses = losses / losses.min(axis=1, keepdims=True) - 1
    regret = float(losses.mean(axis=0).min())
    about: Row = {"curve": curve.name, "regret": regret, "nodes": None}
    rows = [
        _worth(int(n), step_s[:, i], losses, fitted.noise, setup_s)
        for i, n in enumerate(counts)
        if n not in curve.nodes and n <= _FARTHEST * curve.nodes[-1]
    ]
    best = max(rows, key=lambda row: row["saved"] / row["minutes"], default=None)
    if regret < ENOUGH or best is None or best["saved"] <= 0:
        known = f"the fastest number of nodes is known well enough: {_fastest(counts, losses)}"
        return about | {"answer": f"Nothing: {known} costs {regret:.1%} at most on average."}
    return about | best | {"answer": _answer(best, regret)}


def _batch(curve: Curve, counts: "np.ndarray[Any, np.dtype[np.int64]]") -> Floats:
    """Return the batch per node: of one global batch if the curve has one, else of the last."""
    if curve.global_batch is not None:
        return np.asarray(curve.global_batch / counts, dtype=np.float64)
    last = max(curve.measured, key=lambda point: (point.nodes, point.batch_per_worker))
    return np.full(counts.shape, last.batch_per_worker, dtype=np.float64)


def _worth(n: int, step_s: Floats, losses: Floats, noise: float, setup_s: float) -> Row:
    """Return what measuring a step on n nodes would save of the regret, and how long it takes."""
    chance = np.random.default_rng(n).standard_normal(len(step_s))
    seen = np.argsort(np.log(step_s) + noise * chance)
    after = sum(
        float(losses[bin_].mean(axis=0).min()) * len(bin_)
        for bin_ in np.array_split(seen, min(_BINS, len(seen)))
    )
    saved = float(losses.mean(axis=0).min()) - after / len(seen)
    minutes = n * (setup_s + STEPS * float(np.median(step_s))) / 60
    return {"nodes": n, "saved": max(saved, 0.0), "minutes": minutes}


def _fastest(counts: "np.ndarray[Any, np.dtype[np.int64]]", losses: Floats) -> str:
    return f"{int(counts[np.argmin(losses.mean(axis=0))]):,}"


def _answer(best: Row, regret: float) -> str:
    share = best["saved"] / regret
    return (
        f"Measure {best['nodes']:,} nodes next: the best number is not known, which costs "
        f"{regret:.0%} of the time on average, and this would save {share:.0%} of that for "
        f"{best['minutes']:.3g} minutes of machine time."
    )

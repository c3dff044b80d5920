"""Tables in, tables out: the overhead of every model that was measured, fitted and judged.

Fits use whole step times. The parts of split-form steps are not used: they belong to another form
of the step, and a law without a waiting term cannot add them up to the time of the fused one.
"""

import zlib
from pathlib import Path

import numpy as np
import pandas as pd

from nodewise.files import atomic
from nodewise.overhead import bandwidth, judge
from nodewise.overhead.fit import Fit, fit, resample
from nodewise.overhead.formulas import RingAllReduce
from nodewise.overhead.groups import (
    Group,
    Launches,
    find_groups,
    find_launches,
    published_curves,
)
from nodewise.overhead.rows import (
    FITS,
    PREDICTIONS,
    bandwidth_row,
    fit_row,
    prediction_rows,
    trial_rows,
)
from nodewise.tables import typed

RESAMPLES = 200

_SEED = 30917


def fit_study(
    curves: pd.DataFrame,
    cells: pd.DataFrame,
    published: pd.DataFrame,
    *,
    resamples: int = RESAMPLES,
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return the tables `fits`, `predictions` and `judgement`; the same input gives the same ones.

    Predictions cover 1 to 10 nodes (and those observed beyond) at each batch that was timed. Rows
    of scenario `all points` are the fit itself. Held-out rows, and those of oversubscribed points,
    repeat observed points with what a law gave that was not fitted to them.

    Args:
        curves: one row per batch and nodes, with its median step time (see `nodewise.tables`).
        cells: one row per launch, for intervals; may be empty.
        published: the published step times; may be empty.
        resamples: draws of the bootstrap; with 0, intervals come from residuals alone.

    Raises:
        UserError: a table lacks a column.
    """
    ours = list(find_groups(curves))
    theirs = list(find_groups(published_curves(published)))
    launches = find_launches(cells)
    fits, predictions, trials = [], [], []
    for group in [*ours, *theirs]:
        fitted, spread = _fit_group(group, launches, resamples)
        fits.append(fit_row(group, fitted, spread))
        predictions += prediction_rows(group, fitted)
        trials += judge.try_held_out(group)
    for study in dict.fromkeys(group.about["study"] for group in theirs):
        spreads = bandwidth.find_spreads([g for g in theirs if g.about["study"] == study])
        if spreads:
            shared = bandwidth.fit_bandwidth(spreads, resamples, _chance(study))
            fits.append(bandwidth_row(study, shared))
            trials += bandwidth.try_bandwidth(spreads, shared)
    predictions += trial_rows(trials)
    return typed(fits, FITS), typed(predictions, PREDICTIONS), judge.judge(trials)


def write(
    fits: pd.DataFrame, predictions: pd.DataFrame, judgement: pd.DataFrame, out_dir: Path
) -> None:
    """Write `fits.csv`, `predictions.csv` and `judgement.csv`, each in one atomic step."""
    tables = {"fits": fits, "predictions": predictions, "judgement": judgement}
    for name, table in tables.items():
        with atomic(out_dir / f"{name}.csv") as path:
            table.to_csv(path, index=False, lineterminator="\n")


def _fit_group(group: Group, launches: Launches, resamples: int) -> tuple[Fit, str]:
    """Return the ring law fitted to all points, and a note on where its intervals come from."""
    fitted = fit(RingAllReduce, group.points)
    if not fitted.free.any():
        return fitted, ""
    keys = [key for key, use in zip(group.keys, group.fitted, strict=True) if use]
    times = [launches.get(key, np.empty(0)) for key in keys]
    fewest = min(len(point) for point in times)
    if resamples and fewest >= 2:
        drawn = resample(fitted, group.points, times, resamples, _chance(group.about["curve"]))
        few = "; of two launches they hold the truth about 80 times in 100" if fewest == 2 else ""
        return drawn, f"90 % intervals from {resamples} draws of launches{few}"
    if fitted.covariance is None:
        return fitted, "no intervals: no more points than coefficients"
    return fitted, "90 % intervals from the residuals of the fit"


def _chance(name: str) -> np.random.Generator:
    """Return a generator of this name's own: other curves do not change a curve's draws."""
    return np.random.default_rng([_SEED, zlib.crc32(name.encode())])

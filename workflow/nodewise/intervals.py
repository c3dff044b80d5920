"""90 % intervals of medians: of a few launches of a cell, and of many repeats of anything."""

import numpy as np
import pandas as pd

INTERVAL = 0.90
RESAMPLES = 2000
BOOTSTRAP_SEED = 20201

# a lone node has launches of another spread than several, and so has every experiment
_POOL = ["kind", "experiment", "alone", "caution"]


def with_intervals(curves: pd.DataFrame, cells: pd.DataFrame, key: list[str]) -> pd.DataFrame:
    """Return the curve points with the intervals of their median step and epoch times.

    A launch is the unit of repetition: steps within one launch are not independent. Two or three
    launches tell little of their own spread (a bootstrap of them holds the median in half to three
    quarters of all cases), so the spread of the logarithm of the step time is pooled over the
    points of an experiment, those on one node and those with a caution apart; the interval is
    Student's t with the degrees of freedom of the pool. One launch gets none: both ends are NaN.

    Args:
        curves: one row per point, with `key`, `flags`, `repeats`, `step_time_s`, `epoch_time_s`.
        cells: one row per launch that ran to its end, with `key` and `step_time_s`, in seconds.
        key: what a point's launches have in common, their `kind` included.
    """
    from scipy.special import stdtrit

    points = curves[[*key, "repeats", "flags"]].assign(
        alone=curves["nodes"] == 1, caution=curves["flags"] != ""
    )
    timed = cells[cells["step_time_s"] > 0]
    logs = timed[key].assign(log_s=np.log(timed["step_time_s"]))
    spread = logs.groupby(key)["log_s"].agg(squares=squares, launches="size").reset_index()
    pools = points.merge(spread, "left", key).groupby(_POOL)
    freedom = pools["launches"].sum() - pools["launches"].count()
    noise = (pools["squares"].sum() / freedom.where(freedom > 0)) ** 0.5
    wide = (noise * stdtrit(freedom, (1 + INTERVAL) / 2)).rename("wide").reset_index()
    launches = points["repeats"].where(points["repeats"] > 1).to_numpy(dtype=float)
    # of a median of n normal values, in standard deviations of one; 1.11 of it at worst, for two
    of_median = np.sqrt(np.pi / (2 * launches + np.pi - 2))
    factor = np.exp(points.merge(wide, "left", _POOL)["wide"].to_numpy() * of_median)
    return curves.assign(
        step_time_low_s=curves["step_time_s"] / factor,
        step_time_high_s=curves["step_time_s"] * factor,
        epoch_time_low_s=curves["epoch_time_s"] / factor,
        epoch_time_high_s=curves["epoch_time_s"] * factor,
    )


def squares(logs: pd.Series) -> float:
    """Return the sum of the squares of what values differ from their mean."""
    return float(((logs - logs.mean()) ** 2).sum())


def median_interval(repeats: pd.Series) -> tuple[float, float]:
    """Return the percentile-bootstrap interval of the median of many repeats.

    Of few it is too narrow. One has no spread, so both ends are NaN. The seed is fixed: the same
    repeats give the same interval.
    """
    values = np.sort(repeats.to_numpy(dtype=float))
    if len(values) < 2:
        return np.nan, np.nan
    draws = np.random.default_rng(BOOTSTRAP_SEED).choice(values, size=(RESAMPLES, len(values)))
    tail = (1 - INTERVAL) / 2
    low, high = np.quantile(np.median(draws, axis=1), [tail, 1 - tail])
    return float(low), float(high)

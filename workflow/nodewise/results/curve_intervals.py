"""Compute intervals of curve points, from their launches and a spread pooled over points."""

import numpy as np
import pandas as pd

from nodewise.core.intervals import pooled_factors

# the spread of launches differs between experiments, and between one node and several
_POOL = ["kind", "experiment", "alone", "caution"]


def with_intervals(curves: pd.DataFrame, cells: pd.DataFrame, key: list[str]) -> pd.DataFrame:
    """Return the curve points with the 90 % intervals of their median step and epoch times.

    A launch is the unit of repetition, because steps within one launch are not independent. Two or
    three launches say little about their own spread (bootstrap intervals of them contain the median
    in only half to three quarters of all cases). The spread is therefore pooled over the points of
    an experiment, separately for points on one node and for points with a caution. Points with one
    launch have no interval: both ends are NaN.

    Args:
        curves: one row per point, with `key`, `flags`, `repeats`, `step_time_s`, `epoch_time_s`.
        cells: one row per successful launch, with `key` and `step_time_s` in seconds.
        key: the columns that the launches of a point have in common, including `kind`.
    """
    timed = cells[cells["step_time_s"] > 0]
    launches = timed.groupby(key)["step_time_s"].agg(list).rename("launches").reset_index()
    points = curves[[*key, "flags"]].merge(launches, "left", key)
    points = points.assign(alone=points["nodes"] == 1, caution=points["flags"] != "")
    factor = np.full(len(points), np.nan)
    for _, pool in points.dropna(subset="launches").groupby(_POOL):
        factor[pool.index] = pooled_factors(pool["launches"].tolist())
    return curves.assign(
        step_time_low_s=curves["step_time_s"] / factor,
        step_time_high_s=curves["step_time_s"] * factor,
        epoch_time_low_s=curves["epoch_time_s"] / factor,
        epoch_time_high_s=curves["epoch_time_s"] * factor,
    )

"""Compute intervals of curve points, from their launches and a spread pooled over points."""

import numpy as np
import pandas as pd

from nodewise.core.intervals import median_error, squares, students_t

# the spread of launches differs between experiments, and between one node and several
_POOL = ["kind", "experiment", "alone", "caution"]


def with_intervals(curves: pd.DataFrame, cells: pd.DataFrame, key: list[str]) -> pd.DataFrame:
    """Return the curve points with the 90 % intervals of their median step and epoch times.

    A launch is the unit of repetition, because steps within one launch are not independent. Two or
    three launches say little about their own spread (bootstrap intervals of them contain the median
    in only half to three quarters of all cases). The standard deviation of the log step time is
    therefore pooled over the points of an experiment, separately for points on one node and for
    points with a caution. The interval uses Student's t with the degrees of freedom of the pool.
    Points with one launch have no interval: both ends are NaN.

    Args:
        curves: one row per point, with `key`, `flags`, `repeats`, `step_time_s`, `epoch_time_s`.
        cells: one row per successful launch, with `key` and `step_time_s` in seconds.
        key: the columns that the launches of a point have in common, including `kind`.
    """
    points = curves[[*key, "repeats", "flags"]].assign(
        alone=curves["nodes"] == 1, caution=curves["flags"] != ""
    )
    timed = cells[cells["step_time_s"] > 0]
    logs = timed[key].assign(log_s=np.log(timed["step_time_s"]))
    spread = logs.groupby(key)["log_s"].agg(squares=squares, launches="size").reset_index()
    pools = points.merge(spread, "left", key).groupby(_POOL)
    freedom = pools["launches"].sum() - pools["launches"].count()
    noise = (pools["squares"].sum() / freedom.where(freedom > 0)) ** 0.5
    wide = (noise * students_t(freedom)).rename("wide").reset_index()
    launches = points["repeats"].where(points["repeats"] > 1).to_numpy(dtype=float)
    factor = np.exp(points.merge(wide, "left", _POOL)["wide"].to_numpy() * median_error(launches))
    return curves.assign(
        step_time_low_s=curves["step_time_s"] / factor,
        step_time_high_s=curves["step_time_s"] * factor,
        epoch_time_low_s=curves["epoch_time_s"] / factor,
        epoch_time_high_s=curves["epoch_time_s"] * factor,
    )

"""Intervals of the points of curves, from the launches of each and the spread that points share."""

import numpy as np
import pandas as pd

from nodewise.core.intervals import median_error, squares, students_t

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

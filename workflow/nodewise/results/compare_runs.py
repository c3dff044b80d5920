"""Compare two runs: find the points whose step time changed by more than the noise of launches.

Launches of the same point scatter. The standard deviation of the log step time is pooled over all
points of both runs and gives the interval of each ratio of step times (Student's t on means of
logarithms). The confidence level is 99 % because many points are compared at once: of a hundred
unchanged points, one is reported as changed.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from nodewise.core.errors import UserError
from nodewise.core.intervals import students_t
from nodewise.results.columns import COLUMNS, CURVE_KEY
from nodewise.results.table_files import read_file, typed
from nodewise.results.tables import build_tables

LEVEL = 0.99
CHANGES = {
    **{name: COLUMNS["cells"][name] for name in CURVE_KEY},
    **dict.fromkeys(("old_launches", "new_launches"), "int64"),
    **dict.fromkeys(("old_s", "new_s", "old_reference_s", "new_reference_s"), "float64"),
    **dict.fromkeys(("ratio", "low", "high"), "float64"),
    **dict.fromkeys(("verdict", "cell_id"), "str"),
}
FASTER, SLOWER, NO_CHANGE = "faster", "slower", "no change beyond noise"
UNKNOWN = "noise unknown"
ONLY_OLD, ONLY_NEW = "only in the old", "only in the new"


def read_cells(folder: Path) -> pd.DataFrame:
    """Read the table `cells` of a folder of tables, or build it from the records below a folder.

    Raises:
        UserError: the folder has neither, or a file is invalid.
    """
    path = folder / "cells.parquet"
    if path.is_file():
        return read_file(path, COLUMNS["cells"])
    records = sorted(folder.rglob("repeat~*.json"))
    if not records:
        raise UserError(f"{folder}: holds neither tables (cells.parquet) nor records")
    return build_tables(records)["cells"]


def compare(old: pd.DataFrame, new: pd.DataFrame) -> pd.DataFrame:
    """Return the changes of step times, one row per point that is in either table `cells`.

    `old_s` and `new_s` are geometric means over launches, in seconds. `ratio` is new over old, with
    its interval from `low` to `high`. If no point was launched twice, the noise is unknown.
    `old_reference_s` and `new_reference_s` are medians of the reference step. It is the same work
    in both runs, so they show whether the machine itself changed.
    """
    olds, news = _points(old).add_prefix("old_"), _points(new).add_prefix("new_")
    freedom = int((olds["old_launches"] - 1).sum() + (news["new_launches"] - 1).sum())
    squares = ((olds["old_launches"] - 1) * olds["old_variance"]).sum()
    squares += ((news["new_launches"] - 1) * news["new_variance"]).sum()
    noise = (squares / freedom) ** 0.5 if freedom else np.nan
    rows = olds.join(news, how="outer").reset_index()
    change = np.log(rows["new_s"] / rows["old_s"])
    errors = noise * np.sqrt(1 / rows["old_launches"] + 1 / rows["new_launches"])
    wide = students_t(freedom, LEVEL) * errors
    rows = rows.fillna({"old_launches": 0, "new_launches": 0}).assign(
        ratio=np.exp(change),
        low=np.exp(change - wide),
        high=np.exp(change + wide),
        cell_id=rows["new_cell_id"].fillna(rows["old_cell_id"]),
    )
    verdicts = {
        ONLY_OLD: rows["new_s"].isna(),
        ONLY_NEW: rows["old_s"].isna(),
        UNKNOWN: rows["low"].isna(),
        FASTER: rows["high"] < 1,
        SLOWER: rows["low"] > 1,
    }
    rows["verdict"] = np.select([*verdicts.values()], [*verdicts], NO_CHANGE)
    return typed(rows, CHANGES)


def read_changes(path: Path) -> pd.DataFrame:
    """Read the table that `nodewise compare` wrote, or an empty table if the file does not exist.

    Raises:
        UserError: the file is not such a table.
    """
    return read_file(path, CHANGES) if path.is_file() else typed((), CHANGES)


def _points(cells: pd.DataFrame) -> pd.DataFrame:
    """Return one row per point, with statistics of the log step time of its successful launches."""
    done = cells[(cells["status"] == "ok") & (cells["step_time_s"] > 0)]
    done = done.assign(log_s=np.log(done["step_time_s"]))
    points = done.groupby(CURVE_KEY).agg(
        mean=("log_s", "mean"),
        variance=("log_s", "var"),  # NaN for one launch, which says nothing about noise
        launches=("log_s", "size"),
        reference_s=("reference_s", "median"),
        cell_id=("cell_id", "first"),
    )
    return points.assign(s=np.exp(points["mean"]))

"""Rows that several figures share."""

import pandas as pd

from nodewise.report.context import ReportContext
from nodewise.results import queries

LINE = ("experiment", "model", "dataset", "line", "kind")
MODEL = tuple(queries.MODEL)

_EXPERIMENT = ["experiment", "model", "dataset"]
_SHORT = 2
_SAME = 0.01  # largest relative difference of two speed-ups that are taken as equal


def with_speedup_intervals(study: ReportContext, rows: pd.DataFrame) -> pd.DataFrame:
    """Add `lacks`, and `low` and `high`, the interval of the speed-up.

    `lacks` says what the comparison of a point with one node lacks to count as evidence. The
    interval is NaN if it lacks something, or if the row's `speedup` is another one.
    """
    ends = {"speedup_low": "low", "speedup_high": "high", "speedup": "certain", "lacks": "lacks"}
    told = study.compared[["cell_id", "line", *ends]].rename(columns=ends)
    rows = rows.merge(told, "left", ["cell_id", "line"])
    same = (rows["certain"] / rows["speedup"] - 1).abs() < _SAME
    counts = same & (rows["lacks"] == "")
    ends_of = {end: rows[end].where(counts) for end in ("low", "high")}
    lacks = rows["lacks"].fillna("a comparison").where(same, "a comparison")
    return rows.assign(**ends_of, lacks=lacks).drop(columns="certain")


def without_compared(curves: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Return `rows` without experiments that have a chart that compares strategies."""
    return _without(queries.compared_strategies(curves)[_EXPERIMENT].drop_duplicates(), rows)


def without_short(curves: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Return `rows` without experiments on at most two numbers of nodes, if there are longer ones.

    There are if another experiment has the same model.
    """
    curves = without_compared(curves, curves)
    counts = curves.groupby(_EXPERIMENT)["nodes"].nunique()
    most = counts.groupby(_EXPERIMENT[1:]).transform("max")
    short = counts[(counts <= _SHORT) & (most > _SHORT)].reset_index()[_EXPERIMENT]
    return _without(short, rows)


def with_one_node(rows: pd.DataFrame, value: str, same: list[str]) -> pd.DataFrame:
    """Add `VALUE_one`, the value on one node of the row that is equal in the columns `same`."""
    one = rows.loc[rows["nodes"] == 1, [*same, value]].drop_duplicates(same)
    return rows.merge(one.rename(columns={value: f"{value}_one"}), "left", same)


def _without(left_out: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Return `rows` without the combinations of experiment and model in `left_out`."""
    at = ["experiment", "model"]
    known = rows.merge(left_out[at].drop_duplicates().assign(known=True), "left", at)["known"]
    return rows[known.isna().to_numpy()]

"""Rows that several figures share."""

import pandas as pd

from nodewise.report.context import ReportContext
from nodewise.results import queries

LINE = ("experiment", "model", "dataset", "line", "kind")

_EXPERIMENT = ["experiment", "model", "dataset"]
_SHORT = 2


def with_evidence(study: ReportContext, rows: pd.DataFrame) -> pd.DataFrame:
    """Add `lacks`, and `low` and `high`, the interval of the speed-up of points that count.

    `lacks` says what the comparison of a point with one node lacks to count as evidence.
    """
    ends = {"speedup_low": "low", "speedup_high": "high", "lacks": "lacks"}
    told = study.compared[["cell_id", "line", *ends]].rename(columns=ends)
    rows = rows.merge(told, "left", ["cell_id", "line"]).fillna({"lacks": "a comparison"})
    return rows.assign(**{end: rows[end].where(rows["lacks"] == "") for end in ("low", "high")})


def without_compared(curves: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Return `rows` without experiments that have a chart that compares strategies."""
    return _without(queries.compared_strategies(curves), rows)


def without_short(curves: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Return `rows` without such, and without experiments on at most two numbers of nodes.

    These stay if no other experiment of the model has more.
    """
    counts = without_compared(curves, curves).groupby(_EXPERIMENT)["nodes"].nunique()
    most = counts.groupby(_EXPERIMENT[1:]).transform("max")
    short = counts[(counts <= _SHORT) & (most > _SHORT)].reset_index()
    return _without(short, without_compared(curves, rows))


def _without(left_out: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Return `rows` without the combinations of experiment and model in `left_out`."""
    at = ["experiment", "model"]
    known = pd.MultiIndex.from_frame(left_out[at])
    return rows[~pd.MultiIndex.from_frame(rows[at]).isin(known)]

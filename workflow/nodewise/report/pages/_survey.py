"""Make the page of the survey, which prints no measurements.

Its statements are compared with our measurements of the same trade-offs.
"""

import json
from collections.abc import Iterator

import pandas as pd

from nodewise.core.exchanges import EXCHANGES, Content, exchanges_where
from nodewise.report import evidence
from nodewise.report.claims_table import claims_table
from nodewise.report.comparison_words import wide_intervals
from nodewise.report.context import ReportContext
from nodewise.report.page import Page
from nodewise.report.tables import AGAINST_ONE, CAUTION, EXAMPLES, POINT, Column, Table, table
from nodewise.results import comparisons
from nodewise.results.columns import CURVE_KEY
from nodewise.results.queries import with_labels

NAME = "survey"
_PAGE = "studies/survey.html"
TITLE = "Survey of averaging, staleness and compression"

_WAY = [*POINT, Column("setting", "Setting", wide=True)]
_SPEED = [EXAMPLES, AGAINST_ONE]
_SENT = [
    Column("bytes_sent_per_step", "Sent by a worker in a step", "B", kind_from="label"),
    Column("less", "Ring's bytes ÷ sent", "×", kind_from="label"),
]
_EXCHANGED = [*_WAY, *_SPEED, *_SENT, *CAUTION]
_STALENESS = [
    *_WAY,
    Column("mean", "Mean staleness", "mean", kind_from="label"),
    Column("largest", "Largest", "", kind_from="label"),
    *_SPEED,
    *CAUTION,
]
_LEARNT = [
    *POINT,
    Column("train_accuracy", "Training accuracy", "accuracy", kind_from="accuracy_label"),
    Column("test_accuracy", "Test accuracy", "accuracy", kind_from="accuracy_label"),
    Column("accuracy_label", "Kind of accuracy"),
    *_SPEED,
    *CAUTION,
]
_RING = "custom_loop"  # sums all gradients in every step, with the fewest bytes possible


def page(study: ReportContext) -> Iterator[tuple[Page, dict[str, int | None]]]:
    """Yield the page, if anything of the survey was measured. It has no published points."""
    beside = comparisons.on_several_nodes(study.tables["curves"]).drop_duplicates(CURVE_KEY)
    rows = _points(study, beside)
    if rows.empty:
        return
    several = beside.merge(rows[CURVE_KEY].drop_duplicates(), "inner", CURVE_KEY)
    counting = evidence.select(evidence.check_times(several, study.tables, other="_one"))
    context = {
        "claims": claims_table(study, TITLE),
        "averaging": _trade_off(study, rows, _sends(rows, "weights"), _EXCHANGED),
        "staleness": _trade_off(study, rows, rows["mean"].notna(), _STALENESS),
        "compression": _trade_off(study, rows, _sends(rows, "compressed gradients"), _EXCHANGED),
        "accuracy": _accuracy(study, beside),
        "wide": wide_intervals(study, counting, up="../"),
        "figures": study.pick_of_study(NAME, "strategies"),
    }
    shown = bool(context["figures"])
    yield Page(_PAGE, "studies/survey.md.j2", TITLE, context, shown), {"points": None}


def _accuracy(study: ReportContext, beside: pd.DataFrame) -> Table | None:
    """Return a table of the accuracies after whole epochs; None if no point trained any."""
    curves = study.tables["curves"]
    rows = curves[(curves["study"] == NAME) & curves["whole_epochs"]]
    if rows.empty:
        return None
    rows = _between_launches(rows, beside)
    rows = with_labels(rows).sort_values(["model", "nodes", "strategy"], kind="stable")
    return table(study.with_links(rows, _PAGE), _LEARNT)


def _points(study: ReportContext, beside: pd.DataFrame) -> pd.DataFrame:
    """Return the study's points on several nodes, each with the staleness of one of its cells.

    `less` is the number of bytes that a ring sends in a step on the same nodes, divided by the
    number that the point sends.
    """
    curves = study.tables["curves"]
    rows = curves[(curves["study"] == NAME) & (curves["nodes"] > 1)]
    rows = with_labels(_between_launches(rows, beside))
    at = ["model", "dataset", "cluster", "label", "batch_per_worker", "nodes"]
    ring = rows.loc[rows["strategy"] == _RING, [*at, "bytes_sent_per_step"]].drop_duplicates(at)
    rows = rows.merge(ring, "left", at, suffixes=("", "_ring"))
    noted = study.tables["observations"]
    stale = noted.loc[noted["observation"] == "staleness", ["cell_id", "mean", "largest"]]
    sent = rows["bytes_sent_per_step"].where(rows["bytes_sent_per_step"] > 0)
    return rows.assign(less=rows["bytes_sent_per_step_ring"] / sent).merge(stale, "left", "cell_id")


def _sends(rows: pd.DataFrame, content: Content) -> "pd.Series[bool]":
    """Return which points exchange `content`."""
    return rows["exchange"].isin(exchanges_where(lambda exchange: exchange.content == content))


def _between_launches(rows: pd.DataFrame, beside: pd.DataFrame) -> pd.DataFrame:
    """Add the intervals of the speed-ups, `speedup_low` and `speedup_high`.

    `beside` has the points on several nodes for which one node was measured, with these intervals.
    """
    return rows.merge(beside[[*CURVE_KEY, "speedup_low", "speedup_high"]], "left", CURVE_KEY)


def _trade_off(
    study: ReportContext,
    rows: pd.DataFrame,
    which: "pd.Series[bool]",
    columns: list[Column],
) -> Table | None:
    """Return the points of one trade-off as a table, with their settings; None if there are none.

    `which` selects the rows.
    """
    chosen = rows[which].sort_values(["cluster", "nodes", "strategy"], kind="stable")
    if chosen.empty:
        return None
    settings = [
        EXCHANGES[exchange].setting(json.loads(options or "{}")) or "plain"
        for exchange, options in chosen[["exchange", "options"]].to_numpy()
    ]
    return table(study.with_links(chosen.assign(setting=settings), _PAGE), columns)

"""What an answer says, and the parts that several answers share."""

from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd
from markupsafe import Markup

from nodewise.core.units import counted
from nodewise.predict import comparisons
from nodewise.report import evidence
from nodewise.report.context import ReportContext
from nodewise.report.html import (
    EVIDENCE,
    POINT,
    Column,
    Table,
    table,
    text,
)
from nodewise.report.page import PageFigure
from nodewise.report.pages.strategies import in_words
from nodewise.results.columns import CURVE_KEY

PAYS = [
    *POINT,
    Column("repeats", "Launches"),
    Column(
        *("speedup", "Against one node", "×"),
        kind_from="label",
        low="speedup_low",
        high="speedup_high",
    ),
    Column("efficiency", "Efficiency", "share", kind_from="label"),
    *EVIDENCE,
]
DEVICES = Markup("Devices of one machine are not several nodes and are left out.")


@dataclass(frozen=True)
class Finding:
    """A question, its answer in one sentence, and what the answer rests on.

    Attributes:
        anchor: of its section.
        tables: the tables that the answer is from, by name.
        cells: the cells behind the answer.
        evidence: the pages of their curves, each with its title.
        limits: what the answer does not say, one sentence each.
    """

    anchor: str
    question: str
    tables: str
    answer: Markup = field(default_factory=Markup)
    figures: list[PageFigure] = field(default_factory=list)
    numbers: Table | None = None
    cells: list[str] = field(default_factory=list)
    evidence: list[tuple[str, str]] = field(default_factory=list)
    limits: list[Markup] = field(default_factory=list)


def with_numbers(
    study: ReportContext, asked: Finding, rows: pd.DataFrame, columns: list[Column]
) -> Finding:
    """Return the finding with its table; a limit says how many of its points do not count."""
    if rows.empty:
        return asked
    left_out = len(rows) - len(evidence.counting(rows))
    said = (
        f"{left_out} of {counted(len(rows), 'comparison')} {'does' if left_out == 1 else 'do'} not "
        "count as evidence: in the table, with the reason, not in the answer."
    )
    limits = [*asked.limits, *([text(said)] if left_out else [])]
    behind = study.cells[study.cells["cell_id"].isin(asked.cells)].drop_duplicates("page")
    pages = [
        (row["page"], f"{study.model_title(row['model'])}, {study.strategy_title(row['strategy'])}")
        for row in behind.to_dict("records")
    ]
    numbers = table(_shown(study, rows), columns)
    return replace(asked, numbers=numbers, evidence=pages, limits=limits)


def too_little(
    study: ReportContext, asked: Finding, rows: pd.DataFrame, columns: list[Column]
) -> Finding:
    """Return the finding of a question to which none of `rows` is evidence, and what would be."""
    answer = text(f"Too little evidence. {evidence.needs(rows)}")
    return with_numbers(study, replace(asked, answer=answer), rows, columns)


def _shown(study: ReportContext, rows: pd.DataFrame) -> pd.DataFrame:
    strategy = rows["line"] if "line" in rows else rows["strategy"]
    missing = rows["lacks"].map(evidence.in_words)
    return in_words(study, rows.assign(strategy=strategy, missing=missing), "findings.html")


def figures_of(study: ReportContext, row: "pd.Series[Any]", *names: str) -> list[PageFigure]:
    """Return the figures of a point's experiment and model: of the first name that has any.

    Of several lines or experiments it is the point's own.
    """
    line = row["line"] if "line" in row else row["strategy"]
    point = {"study": row["study"], "experiment": row["experiment"], "line": line}
    for name in names:
        shown = study.pick(name, model=row["model"], dataset=row["dataset"])
        own = [
            one for one in shown if all(one.of.get(axis, at) == at for axis, at in point.items())
        ]
        if own:
            return own[:1]
    return []


def listed(values: "pd.Series[int]") -> str:
    *first, last = [f"{value:,}" for value in values]
    return f"{', '.join(first)} and {last}" if first else last


def two_runs(study: ReportContext, told: pd.DataFrame) -> list[Markup]:
    """Return how many of the points pay in each of two runs, if two were compared."""
    rows = comparisons.in_two_runs(study.tables["curves"], study.changes)
    rows = rows.merge(told[CURVE_KEY], "inner", CURVE_KEY)
    if rows.empty:
        return []
    said = Markup(
        "{} of the points {} measured in two runs, each with its own one node: several nodes were "
        "faster at {} of them in one run and at {} in the other. A speed-up is no more certain "
        'than the one-node time it is against: <a href="changes.html">Changes between runs</a>.'
    )
    gains = [int((rows[f"speedup_{run}"] > 1).sum()) for run in ("old", "new")]
    return [said.format(len(rows), "was" if len(rows) == 1 else "were", *gains)]

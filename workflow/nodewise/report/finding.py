"""Define the answers of the findings page, and the parts that several answers share."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
from markupsafe import Markup

from nodewise.core.units import counted
from nodewise.report import evidence
from nodewise.report.charts import Chart
from nodewise.report.context import ReportContext
from nodewise.report.html import text
from nodewise.report.tables import AGAINST_ONE, EFFICIENCY, EVIDENCE, LAUNCHES, POINT, Column, table

PAYS = [
    *POINT,
    LAUNCHES,
    AGAINST_ONE,
    EFFICIENCY,
    *EVIDENCE,
]
DEVICES = Markup("Devices of one machine are not several nodes and are left out.")


@dataclass(frozen=True)
class Finding:
    """A question, its answer in one sentence, and the evidence for the answer.

    Attributes:
        anchor: the anchor of its section.
        question: the question, which is the title of its section.
        tables: the names of the tables that the answer comes from, separated by spaces.
        answer: the answer; empty if there is too little evidence for one.
        rows: the comparisons. The column `lacks` says what each lacks to count as evidence.
        columns: the columns of `rows` that the section's table shows.
        figures: the figures that the section shows.
        cells: the ids of the cells behind the answer.
        limits: what the answer does not say, one sentence each.
    """

    anchor: str
    question: str
    tables: str
    answer: Markup = field(default_factory=Markup)
    rows: pd.DataFrame = field(default_factory=pd.DataFrame)
    columns: Sequence[Column] = ()
    figures: Sequence[Chart] = ()
    cells: Sequence[str] = ()
    limits: Sequence[Markup] = ()


def complete(study: ReportContext, finding: Finding) -> dict[str, Any]:
    """Return the template variables of a finding.

    The table of its rows and the links to the pages of its cells are added. If the finding has no
    answer, the answer says what has to be measured. If some rows do not count as evidence, a limit
    says how many.
    """
    rows, limits = finding.rows, [*finding.limits]
    answer = finding.answer or text(f"Too little evidence. {evidence.needs(rows)}")
    shown: dict[str, Any] = {**vars(finding), "answer": answer, "limits": limits}
    if rows.empty:
        return shown | {"numbers": None, "evidence": []}
    left_out = len(rows) - len(evidence.select(rows))
    if left_out:
        verb = "does" if left_out == 1 else "do"
        limits.append(
            text(
                f"{left_out} of {counted(len(rows), 'comparison')} {verb} not count as evidence. "
                "The table has them, with the reason; the answer leaves them out."
            )
        )
    behind = study.cells[study.cells["cell_id"].isin(finding.cells)].drop_duplicates("page")
    pages = [
        (row["page"], f"{study.model_title(row['model'])}, {study.strategy_title(row['strategy'])}")
        for row in behind.to_dict("records")
    ]
    strategy = rows["line"] if "line" in rows else rows["strategy"]
    missing = rows["lacks"].map(evidence.lacks_in_words)
    rows = study.with_links(rows.assign(strategy=strategy, missing=missing), "findings.html")
    return shown | {"numbers": table(rows, finding.columns), "evidence": pages}


def figures_of(study: ReportContext, row: "pd.Series[Any]", *names: str) -> list[Chart]:
    """Return the figure that shows a point, in a list; empty if there is none.

    Args:
        study: the study.
        row: the point.
        names: names of figures. The first one of which a figure shows the point's experiment, line,
            model and dataset is used; of several panels, the one that contains the point.
    """
    line = row["line"] if "line" in row else row["strategy"]
    point = {"study": row["study"], "experiment": row["experiment"], "line": line}
    for name in names:
        shown = study.pick(name, model=row["model"], dataset=row["dataset"])
        own = [
            one for one in shown if all(one.of.get(axis, at) == at for axis, at in point.items())
        ]
        if own:  # of several panels, prefer the one that contains the point
            return [*(one for one in own if row["cell_id"] in one.csv), *own][:1]
    return []

"""The table of what the published studies claim, and what our tables say of it."""

import pandas as pd
from markupsafe import Markup

from nodewise.report.claims import judged
from nodewise.report.comparison_words import kind_of
from nodewise.report.html import (
    Column,
    Table,
    data,
    number,
    table,
    text,
)
from nodewise.report.study import Study

_CLAIMS = [
    Column("study", "Study"),
    Column("claim", "What it says", wide=True),
    Column("rule", "What decides", wide=True),
    Column("value", "Ours, median and range", wide=True),
    Column("verdict", "Verdict"),
    Column("counts", "Comparisons", wide=True),
]


def claims_table(study: Study, of: str | None = None) -> Table:
    """Return what the studies say, or one `of` them, and what our tables say of it."""
    rows, repeats = [], study.tables["curves"].groupby("cell_id")["repeats"].first()
    for one in judged(study.tables, study.overhead):
        if of not in (None, one.claim.study):
            continue
        found = one.comparisons
        values = [_median(part, at, one.claim.unit) for at, part in found.groupby("at", sort=False)]
        lone = " (one comparison)" * (len(found) == 1 and one.verdict in ("agrees", "disagrees"))
        rows.append(
            {
                "study": one.claim.study,
                "claim": Markup("{} ({})").format(text(one.claim.says), text(one.claim.where)),
                "rule": one.claim.decided_by,
                "value": Markup("<br>").join(values) or "–",
                "verdict": one.verdict + lone,
                "counts": "{} for, {} against, {} too near".format(*one.speaking)
                + _launched_once(found["cell_id"].map(repeats)),
            }
        )
    return table(rows, _CLAIMS)


def _median(rows: pd.DataFrame, at: object, unit: str) -> Markup:
    """Return the median of what a rule compared, with its range, and `at` which points."""
    low, high = rows["value"].min(), rows["value"].max()
    value = number(rows["value"].median(), unit, kind_of(rows))
    if at:
        value += text(f" {at}")
    if low != high:
        value += Markup('<span class="nw-range">{} to {}</span>').format(
            data(low, unit), data(high, unit)
        )
    return value


def _launched_once(repeats: "pd.Series[float]") -> str:
    once = int((repeats == 1).sum())
    return f"; {once} launched once" if once else ""

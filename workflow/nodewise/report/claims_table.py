"""Make the table of the published studies' claims and our verdicts on them."""

import pandas as pd
from markupsafe import Markup

from nodewise.report.claims import Judged
from nodewise.report.comparison_words import kind_of
from nodewise.report.context import ReportContext
from nodewise.report.html import data, interval, number, text
from nodewise.report.tables import Column, Table, table

_STUDY = Column("study", "Study")
_CLAIMS = [
    Column("claim", "What it says", wide=True),
    Column("verdict", "Verdict"),
    Column("value", "What we found", wide=True),
    Column("counts", "Evidence", wide=True),
    Column("rule", "How it is decided", wide=True),
]


def claims_table(study: ReportContext, of: str | None = None) -> Table:
    """Return a table of claims with their verdicts and the values behind these.

    The values are those of the comparisons that count as evidence, or of all comparisons if none
    counts. Values of different kinds, such as measured and emulated, are listed separately.

    Args:
        study: the study whose tables judge the claims.
        of: the published study whose claims are shown; None for those of all studies.
    """
    rows = []
    for one in study.claims:
        if of not in (None, one.claim.study):
            continue
        shown = one.counting if len(one.counting) else one.comparisons
        groups = shown.groupby(["at", "label"], sort=False)
        values = [_compared(part, at, one.claim.unit) for (at, _), part in groups]
        rows.append(
            {
                "study": one.claim.study,
                "claim": Markup("{} ({})").format(text(one.claim.says), text(one.claim.where)),
                "rule": one.claim.decided_by,
                "value": Markup("<br>").join(values) or "–",
                "verdict": one.verdict,
                "counts": one.needs or _counts(one),
            }
        )
    return table(rows, _CLAIMS if of else [_STUDY, *_CLAIMS])


def _counts(one: Judged) -> str:
    words = zip(one.speaking, ("for", "against", "undecided"), strict=True)
    counts = ", ".join(f"{count} {word}" for count, word in words if count)
    left_out = len(one.comparisons) - len(one.counting)
    verb = "does" if left_out == 1 else "do"
    return f"{counts}; {left_out} more {verb} not count" if left_out else counts


def _compared(rows: pd.DataFrame, at: object, unit: str) -> Markup:
    """Return the value of one comparison with its interval, or the median and range of several.

    `at` says in words at which points they were compared; it may be empty.
    """
    value = number(rows["value"].median(), unit, kind_of(rows))
    if at:
        value += text(f" {at}")
    if len(rows) == 1:
        low, high = rows[["low", "high"]].iloc[0]
        return value + interval(low, high, unit) if low < high else value
    low, high = rows["value"].min(), rows["value"].max()
    if low != high:
        value += Markup('<span class="nw-range">{} comparisons, {} to {}</span>').format(
            len(rows), data(low, unit), data(high, unit)
        )
    return value

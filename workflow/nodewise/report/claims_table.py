"""Make the tables of the published studies' claims and our verdicts on them."""

from collections.abc import Sequence

import pandas as pd
from markupsafe import Markup

from nodewise.report.claims import OPEN, Judged
from nodewise.report.html import data, interval, number, slug, text
from nodewise.report.tables import Column, Table, table

_CLAIMS = [
    Column("verdict", "Verdict"),
    Column("says", "What it says", wide=True),
    Column("found", "What we found", wide=True),
]
_NEEDS = Column("needs", "What it needs", wide=True)
_SMALL = Markup("{}<br><small>{}</small>")


def claims_table(claims: Sequence[Judged], *, decided: bool) -> Table | None:
    """Return the claims that are decided, or those with too little evidence; None without any."""
    rows = [
        {
            "verdict": verdict(one.verdict),
            "says": _SMALL.format(
                text(f"{one.claim.says} ({one.claim.where})"),
                text(f"Agrees: {one.claim.decided_by}"),
            ),
            "found": _found(one) if len(one.counting) else "",
            "needs": one.needs,
        }
        for one in claims
        if (one.verdict != OPEN) == decided
    ]
    return table(rows, _CLAIMS if decided else [*_CLAIMS[1:], _NEEDS]) if rows else None


def verdict(words: str) -> Markup:
    """Return a verdict in words and colour."""
    shown = Markup('<span class="nw-verdict nw-verdict--{}">{}</span>')
    return shown.format(slug(words), text(words))


def value(one: Judged) -> Markup:
    """Return the value of the comparisons that count as evidence, or the range of several."""
    low, high = one.counting["value"].min(), one.counting["value"].max()
    ends = [data(end, "mean") for end in (low, high)]
    return ends[0] if ends[0] == ends[1] else Markup(" to ").join(ends)


def _found(one: Judged) -> Markup:
    """Say what was compared for a claim, and how many comparisons speak for it and against it.

    Values of different kinds, such as measured and emulated, are listed separately.
    """
    groups = one.counting.groupby(["at", "label"], sort=False)
    values = [_compared(part, at, one.claim.unit) for (at, _), part in groups]
    left_out = len(one.comparisons) - len(one.counting)
    counts = zip(
        (*one.speaking, left_out), ("for", "against", "undecided", "not counted"), strict=True
    )
    told = ", ".join(f"{count} {word}" for count, word in counts if count)
    shown = Markup("{}: {}").format(text(one.claim.compares), Markup("; ").join(values))
    return _SMALL.format(shown, text(told))


def _compared(rows: pd.DataFrame, at: object, unit: str) -> Markup:
    """Return the value of one comparison with its interval, or the median and range of several.

    `at` says in words at which points they were compared; it may be empty.
    """
    kind = str(rows["label"].mode().iloc[0])
    shown = number(rows["value"].median(), unit, kind) + text(f" {at}" if at else "")
    if len(rows) == 1:
        low, high = rows[["low", "high"]].iloc[0]
        return shown + interval(low, high, unit) if low < high else shown
    low, high = rows["value"].min(), rows["value"].max()
    template = Markup(" ({} to {} in {} comparisons)")
    return shown + template.format(data(low, unit), data(high, unit), len(rows))

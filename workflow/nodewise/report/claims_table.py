"""Make the tables of the published studies' claims and our verdicts on them."""

from collections.abc import Sequence

import pandas as pd
from markupsafe import Markup

from nodewise.report.claims import OPEN, Judged
from nodewise.report.html import data, interval, number, slug, text
from nodewise.report.tables import Column, Table, table

_CLAIMS = [
    Column("verdict", "Verdict"),
    Column("claim", "What it says", wide=True),
    Column("found", "What we found", wide=True),
    Column("decided_by", "How it is decided", wide=True),
]
_OPEN = [
    Column("claim", "What it says", wide=True),
    Column("found", "What we found", wide=True),
    Column("needs", "What it needs", wide=True),
]


def claims_table(claims: Sequence[Judged]) -> Table | None:
    """Return the claims that have enough evidence, with what we found; None if there are none."""
    rows = [
        {
            "verdict": verdict(one.verdict),
            "claim": Markup("{} ({})").format(text(one.claim.says), text(one.claim.where)),
            "found": found(one),
            "decided_by": one.claim.decided_by,
        }
        for one in claims
        if one.verdict != OPEN
    ]
    return table(rows, _CLAIMS) if rows else None


def open_claims(claims: Sequence[Judged]) -> Table | None:
    """Return the claims with too little evidence; None if there are none."""
    rows = [
        {
            "claim": one.claim.says,
            "found": found(one) if len(one.counting) else "",
            "needs": one.needs,
        }
        for one in claims
        if one.verdict == OPEN
    ]
    return table(rows, _OPEN) if rows else None


def verdict(words: str) -> Markup:
    """Return a verdict in words and colour."""
    shown = Markup('<span class="nw-verdict nw-verdict--{}">{}</span>')
    return shown.format(slug(words), text(words))


def found(one: Judged) -> Markup:
    """Say what was compared for a claim, and how many comparisons speak for it and against it.

    The values are those of the comparisons that count as evidence. Values of different kinds, such
    as measured and emulated, are listed separately.
    """
    groups = one.counting.groupby(["at", "label"], sort=False)
    values = [_compared(part, at, one.claim.unit) for (at, _), part in groups]
    counts = zip(one.speaking, ("for", "against", "undecided"), strict=True)
    left_out = len(one.comparisons) - len(one.counting)
    told = [f"{count} {word}" for count, word in counts if count]
    told += [f"{left_out} not counted"] if left_out else []
    shown = Markup('{}: {}<span class="nw-range">{}</span>')
    return shown.format(text(one.claim.compares), Markup("; ").join(values), text(", ".join(told)))


def value(one: Judged) -> Markup:
    """Return the value of the comparisons that count as evidence, or the range of several."""
    low, high = one.counting["value"].min(), one.counting["value"].max()
    ends = [data(end, "mean") for end in (low, high)]
    return ends[0] if ends[0] == ends[1] else Markup(" to ").join(ends)


def _compared(rows: pd.DataFrame, at: object, unit: str) -> Markup:
    """Return the value of one comparison with its interval, or the median and range of several.

    `at` says in words at which points they were compared; it may be empty.
    """
    shown = number(rows["value"].median(), unit, str(rows["label"].mode().iloc[0]))
    if at:
        shown += text(f" {at}")
    low, high = rows["value"].min(), rows["value"].max()
    if len(rows) == 1:
        low, high = rows[["low", "high"]].iloc[0]
        return shown + interval(low, high, unit) if low < high else shown
    template = Markup(" ({} to {} in {} comparisons)")
    return shown + template.format(data(low, unit), data(high, unit), len(rows))

"""Write sentences about comparisons, for answers and other pages."""

import json
from collections.abc import Iterable
from typing import Any

import pandas as pd
from markupsafe import Markup

from nodewise.core.exchanges import EXCHANGES
from nodewise.report import evidence
from nodewise.report.context import ReportContext
from nodewise.report.html import between, interval, number, text
from nodewise.results import comparisons
from nodewise.results.columns import CURVE_KEY
from nodewise.strategies import STRATEGIES

SIDE_BY_SIDE = ["experiment", "model", "cluster", "label", "batch_per_worker", "nodes"]
"""The columns in which the points of strategies must be equal to be compared."""
_WIDE = 2.0  # ratio of the ends of an interval above which it is explained


def wide_intervals(study: ReportContext, rows: pd.DataFrame, up: str = "") -> list[Markup]:
    """Explain the widest interval of the points' speed-ups, if it is wide.

    Args:
        study: the study.
        rows: points with the interval of their speed-up.
        up: the relative address of the site's root, such as `../`.

    Returns:
        One sentence, or none if the ends of no interval are more than `_WIDE` times apart.
    """
    rated = rows[rows["speedup_low"].notna()]
    if rated.empty:
        return []
    wide = rated.assign(wide=rated["speedup_high"] / rated["speedup_low"]).sort_values("wide")
    widest = wide.iloc[-1]
    if widest["wide"] <= _WIDE:
        return []
    cells = study.tables["cells"]
    point = cells.loc[cells["cell_id"] == widest["cell_id_one"], CURVE_KEY]
    one = cells[cells["status"] == "ok"].merge(point, "inner", CURVE_KEY)["step_time_s"]
    sentence = Markup(
        "Ranges are 90\u00a0% intervals over launches. The widest, {}, is against a step on "
        "one node that took {} in {}. Short steps differ most between launches: see "
        '<a href="{}method.html">How this was measured</a>.'
    )
    return [
        sentence.format(
            between(widest["speedup_low"], widest["speedup_high"], "×", widest["label"]),
            between(one.min(), one.max(), "s", widest["label"]),
            *(text(f"{len(one)} launches"), up),
        )
    ]


def most_compared(rows: pd.DataFrame) -> pd.DataFrame | None:
    """Return the points at which most strategies are compared, or None.

    Only points that count as evidence are considered. The result is None if no two strategies have
    such points with equal values in `SIDE_BY_SIDE`.
    """
    groups = [
        group
        for _, group in evidence.select(rows).groupby(SIDE_BY_SIDE)
        if group["strategy"].nunique() > 1
    ]
    return comparisons.most_strategies(groups) if groups else None


def fastest(study: ReportContext, group: pd.DataFrame) -> Markup:
    """Say which strategy of a comparison was the fastest, and which others may be as fast.

    `group` has rates with their intervals, as `comparisons.with_rate_intervals` returns them.
    """
    best = group.sort_values("examples_per_s", ascending=False, kind="stable").iloc[0]
    # the title of a study's own variant already states the setting
    own = best["strategy"] in STRATEGIES
    details = _setting(best) if own else ""
    overlap = comparisons.not_slower(group)
    ends = best["examples_per_s_low"], best["examples_per_s_high"]
    return Markup("{}{} {}: {} examples/s{}{}").format(
        text(study.strategy_title(best["strategy"])),
        text(f" ({details})" if details else ""),
        "had the highest rate" if overlap else "was the fastest",
        number(best["examples_per_s"], "/s", best["label"]),
        interval(*ends, "/s"),
        _as_fast(study, overlap),
    )


def _setting(point: "pd.Series[Any]") -> str:
    return EXCHANGES[point["exchange"]].setting(json.loads(point["options"] or "{}"))


def _as_fast(study: ReportContext, overlap: list[str]) -> Markup:
    if not overlap:
        return Markup("")
    why = "its interval overlaps" if len(overlap) == 1 else "their intervals overlap"
    return text(f"; {named(study, overlap)} may be as fast, as {why}")


def named(study: ReportContext, strategies: list[str]) -> str:
    """Return the titles of strategies as a list in a sentence; repeated names are listed once."""
    return join_words(map(study.strategy_title, dict.fromkeys(strategies)))


def join_words(words: Iterable[str]) -> str:
    """Return words as a list in a sentence: a, b and c."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def kind_of(rows: pd.DataFrame) -> str:
    """Return the kind of the median of `rows`: the kind that most of the rows have."""
    return str(rows["label"].mode().iloc[0])

"""Draw the parts of steps as stacked bars."""

from collections.abc import Sequence

import altair as alt
import pandas as pd

from nodewise.report import theme
from nodewise.report.figure import inline
from nodewise.report.figures._encodings import legend_columns, tooltip
from nodewise.results.queries import TIMED_STEP

MARKED = "A bar with “!” calls"  # for caution
READING = (
    "A thin line is the interval of the median step over launches, where there are several. "
    "It is of the timed steps; splitting a step takes time, so a bar may end beyond its line."
)
_LOW, _HIGH = TIMED_STEP[1:]


def stacked(
    data: pd.DataFrame, named: Sequence[str], **places: alt.X | alt.Y | alt.XOffset | alt.YOffset
) -> list[alt.Chart]:
    """Return stacked bars of the parts of steps, with the intervals of the steps.

    Args:
        data: rows with `part`, `seconds` and `flags`, and the time of the whole step with its
            interval in `TIMED_STEP`.
        named: the columns that distinguish the bars; tooltips show them.
        places: the encoding of the bars' places. Bars are vertical if it has `x`, else horizontal.
    """
    parts = list(theme.PART_COLOURS)
    colours = alt.Scale(domain=parts, range=list(theme.PART_COLOURS.values()))
    # the names of horizontal bars take some of the width
    length, columns = (
        (alt.Y, legend_columns(2, 3, 5)) if "x" in places else (alt.X, legend_columns(1, 2, 5))
    )
    seconds = length("seconds:Q", title="Time of one step (s)").stack("zero")
    seconds = seconds.axis(tickCount=6, labelSeparation=8)
    bars: alt.Chart = (
        alt.Chart(inline(data))
        .transform_calculate(rank=f"indexof({parts}, datum.part)")
        .mark_bar()
        .encode(
            seconds,
            color=alt.Color("part:N", title=None, scale=colours).legend(columns=columns),
            order=alt.Order("rank:Q"),
            tooltip=tooltip(data, [*named, "part", "seconds", "repeats", "flags"]),
            **places,
        )
    )
    return [bars, *_intervals(data, named, **places)]


def _intervals(
    data: pd.DataFrame, named: Sequence[str], **places: alt.X | alt.Y | alt.XOffset | alt.YOffset
) -> list[alt.Chart]:
    """Return the intervals of the steps; an empty list if no bar has several launches."""
    known = whole_bars(data, named).dropna(subset=[_LOW])
    if known.empty:
        return []
    ends = (
        (alt.Y(f"{_LOW}:Q"), alt.Y2(_HIGH))
        if "x" in places
        else (alt.X(f"{_LOW}:Q"), alt.X2(_HIGH))
    )
    lines = alt.Chart(inline(known), name="intervals").mark_rule(
        style=theme.INTERVAL, strokeWidth=1.5
    )
    told = tooltip(known, [*named, *TIMED_STEP, "repeats", "flags"])
    return [lines.encode(*ends, tooltip=told, **places)]


def cautions(
    data: pd.DataFrame, named: Sequence[str], **places: alt.X | alt.Y | alt.XOffset | alt.YOffset
) -> list[alt.Chart]:
    """Return a mark beyond the end of each flagged bar; an empty list if no bar is flagged.

    The arguments are those of `stacked`.
    """
    bars = whole_bars(data, named)
    flagged = bars[bars["flags"] != ""]
    if flagged.empty:
        return []
    mark = alt.Chart(inline(flagged))
    if "x" in places:
        above = mark.mark_text(text="!", fontSize=13, fontWeight="bold", baseline="bottom", dy=-1)
        return [above.encode(alt.Y("end:Q"), **places)]
    beside = mark.mark_text(text="!", fontSize=13, fontWeight="bold", align="left", dx=3)
    return [beside.encode(alt.X("end:Q"), **places)]


def whole_bars(data: pd.DataFrame, named: Sequence[str]) -> pd.DataFrame:
    """Return one row per bar, with its total `seconds` and its `end`.

    `end` is the end of the bar or of its interval, whichever is larger. The arguments are those of
    `stacked`.
    """
    whole = data.groupby([*named])["seconds"].transform("sum")
    bars = data.assign(seconds=whole).drop_duplicates([*named]).drop(columns="part")
    return bars.assign(end=bars[["seconds", _HIGH]].max(axis=1))

"""The parts of steps as stacked bars."""

from collections.abc import Sequence

import altair as alt
import pandas as pd

from nodewise.report import theme
from nodewise.report.figure import inline
from nodewise.report.figures._encodings import legend_columns, tooltip

MARKED = "A bar with “!” calls"  # for caution


def stacked(
    data: pd.DataFrame, named: Sequence[str], **places: alt.X | alt.Y | alt.XOffset | alt.YOffset
) -> alt.Chart:
    """Return one bar per place, the parts of a step on top of each other.

    Args:
        data: rows with `part`, `seconds` and `flags`.
        named: the columns that pointing at a part names.
        places: the encoding of the bars' place; they stand if it is `x`, and lie if it is `y`.
    """
    parts = list(theme.PART_COLOURS)
    colours = alt.Scale(domain=parts, range=list(theme.PART_COLOURS.values()))
    # names of lying bars take of the width
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
            tooltip=tooltip(data, named),
            **places,
        )
    )
    return bars


def cautions(
    data: pd.DataFrame, at: Sequence[str], **places: alt.X | alt.Y | alt.XOffset | alt.YOffset
) -> list[alt.Chart]:
    """Return a mark at the end of each bar that calls for caution; nothing if none does.

    Args:
        data: what `stacked` was given.
        at: the columns that tell the bars apart.
        places: as `stacked` was given them.
    """
    bars = data.groupby([*at])["seconds"].sum().reset_index()
    flagged = bars.merge(data.loc[data["flags"] != "", [*at]].drop_duplicates())
    if flagged.empty:
        return []
    mark = alt.Chart(inline(flagged))
    if "x" in places:
        above = mark.mark_text(text="!", fontSize=13, fontWeight="bold", baseline="bottom", dy=-1)
        return [above.encode(alt.Y("seconds:Q"), **places)]
    beside = mark.mark_text(text="!", fontSize=13, fontWeight="bold", align="left", dx=3)
    return [beside.encode(alt.X("seconds:Q"), **places)]

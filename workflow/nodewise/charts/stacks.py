"""The parts of steps as stacked bars."""

from collections.abc import Sequence

import altair as alt
import pandas as pd

from nodewise.charts import theme
from nodewise.charts.figure import few, inline, tooltip

PALE = "Pale bars: with a caution."


def stacked(
    data: pd.DataFrame, told: Sequence[str], **places: alt.X | alt.Y | alt.XOffset | alt.YOffset
) -> alt.Chart:
    """Return one bar per place, the parts of a step on top of each other.

    Args:
        data: rows with `part`, `seconds` and `flags`.
        told: the columns that pointing at a part tells.
        places: the encoding of the bars' place; they stand if it is `x`, and lie if it is `y`.
    """
    parts = list(theme.PART_COLOURS)
    colours = alt.Scale(domain=parts, range=list(theme.PART_COLOURS.values()))
    length, narrow = (alt.Y, 2) if "x" in places else (alt.X, 1)  # names take of the width
    seconds = length("seconds:Q", title="Time of one step (s)").stack("zero")
    seconds = seconds.axis(tickCount=6, labelSeparation=8)
    bars: alt.Chart = (
        alt.Chart(inline(data))
        .transform_calculate(rank=f"indexof({parts}, datum.part)")
        .mark_bar()
        .encode(
            seconds,
            color=alt.Color("part:N", title=None, scale=colours).legend(columns=few(narrow, 5)),
            order=alt.Order("rank:Q"),
            opacity=alt.OpacityValue(1, condition={"test": "datum.flags", "value": 0.6}),
            tooltip=tooltip(data, told),
            **places,
        )
    )
    return bars

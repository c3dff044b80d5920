"""Make the encodings of figures: axes, colours, shapes, legends and tooltips."""

from collections.abc import Collection, Mapping, Sequence
from json import dumps
from textwrap import wrap
from typing import Any

import altair as alt
import pandas as pd
from altair.utils.schemapi import UndefinedType

from nodewise.core.units import KINDS, base_kind
from nodewise.report import theme
from nodewise.results.columns import title_of_column

# Vega expressions that are true if a chart is as narrow as a phone, or as half a page. They do not
# use the signal `width`, because it shrinks while the chart is laid out.
PHONE = "containerSize()[0] < 360"
HALF = "containerSize()[0] < 500"
TICKS = 12  # most ticks on an axis of whole numbers
_LETTERS = 30  # most letters of a line of a label
_PADDED: dict[str, Any] = {"nice": False, "padding": 12}


def nodes_axis(counts: Collection[float], *, every: bool = False) -> alt.X:
    """Return the horizontal axis of node counts.

    Ticks are at whole numbers, or with `every` at exactly the counts that are given.
    """
    ticks = sorted({int(count) for count in counts}) if every else whole_ticks(counts)
    x = alt.X("nodes:Q", title="Nodes").axis(values=ticks, format="d")
    return x.scale(zero=False, **_PADDED)


def log_nodes_axis() -> alt.X:
    """Return the horizontal axis of node counts on a log scale, with ticks at powers of two."""
    x = alt.X("nodes:Q", title="Nodes, log scale").scale(type="log", base=2, **_PADDED)
    return x.axis(values=[2**power for power in range(7)], format="d", grid=False)


def whole_ticks(counts: Collection[float]) -> list[int]:
    """Return at most `TICKS` evenly spaced whole numbers that span `counts`.

    By default, Vega places ticks between whole numbers on a short axis and rounds their labels.
    """
    low, high = int(min(counts)), int(max(counts))
    step = -(-(high - low + 1) // TICKS)
    return [*range(low if step == 1 else -(-low // step) * step, high + 1, step)]


def by_batch(data: pd.DataFrame) -> tuple[alt.Color, alt.Fill]:
    """Return the colours of batches, for strokes and for the fill of points."""
    batches = sorted(map(int, data["batch_per_worker"].unique()))
    colours = theme.batch_colours(batches)
    return by_value("batch_per_worker:O", "Batch per worker", batches, colours, _ordinal())


def by_nodes(data: pd.DataFrame) -> tuple[alt.Color, alt.Fill]:
    """Return the colours of node counts, for strokes and for the fill of points."""
    counts = sorted(map(int, data["nodes"].unique()))
    return by_value("nodes:O", "Nodes", counts, theme.node_colours(counts), _ordinal())


def by_value(
    field: str, title: str | None, values: Sequence[Any], colours: Sequence[str], legend: alt.Legend
) -> tuple[alt.Color, alt.Fill]:
    """Return the colours of values, for strokes and for the fill of points, with one legend."""
    scale = alt.Scale(domain=values, range=colours)
    look: dict[str, Any] = {"title": title, "scale": scale, "legend": legend}
    return alt.Color(field, **look), alt.Fill(field, **look)


def _ordinal() -> alt.Legend:
    return alt.Legend(symbolOpacity=1, columns=legend_columns(4, 6, 8))


def dashed_by_role() -> alt.StrokeDash:
    """Return the dashes of lines by `role`: solid where fitted, dashed where predicted."""
    scale = alt.Scale(domain=["fitted", "predicted"], range=[[1, 0], [5, 4]])
    return alt.StrokeDash("role:N", title=None, scale=scale, legend=dash_legend())


def dash_legend(columns: alt.ExprRef | UndefinedType = alt.Undefined) -> alt.Legend:
    """Return a legend of dashes, with symbols long enough to show them."""
    return alt.Legend(
        symbolType="stroke", symbolStrokeColor=theme.NEUTRAL, symbolSize=600, columns=columns
    )


def legend_columns(phone: int, half: int, wide: int) -> alt.ExprRef:
    """Return the number of legend columns: on a phone, in half a page, or in a full page."""
    return alt.ExprRef(f"{PHONE} ? {phone} : {HALF} ? {half} : {wide}")


def label_expression(titles: Mapping[str, str]) -> str:
    """Return the Vega expression that shows titles instead of names on an axis or in a legend.

    Long titles are split into several lines.
    """
    lines = {name: label_lines(title) for name, title in titles.items()}
    return f"({dumps(lines, sort_keys=True)})[datum.value] || datum.label"


def label_lines(title: str) -> list[str]:
    """Split a title into the lines of a label."""
    return wrap(title, _LETTERS, break_long_words=False, break_on_hyphens=False)


def strategy_titles(rows: pd.DataFrame) -> dict[str, str]:
    """Return the titles of the strategies in `rows`, by name."""
    names = rows["line"] if "line" in rows else rows["strategy"]
    return dict(zip(names, rows["strategy_title"], strict=True))


def strategies_behind(rows: pd.DataFrame) -> dict[str, str]:
    """Return the registered strategies that the names in `rows` stand for, by name."""
    names = rows["line"] if "line" in rows else rows["strategy"]
    return dict(zip(names, rows["variant_of"], strict=True))


def kinds_of(data: pd.DataFrame) -> list[str]:
    """Return the kind labels that occur in `data`, in the order of `KINDS`."""
    order = list(KINDS)
    return sorted(data["kind"].unique(), key=lambda label: (order.index(base_kind(label)), label))


def kind_shape(data: pd.DataFrame) -> alt.Shape:
    """Return the shapes of points by kind, without a legend: the subtitle names the kinds."""
    return alt.Shape("kind:N", legend=None, scale=shape_scale(kinds_of(data)))


def kind_shape_with_legend(kinds: list[str]) -> alt.Shape:
    """Return the shapes of points by kind, with a legend."""
    shape = alt.Shape("kind:N", title=None, scale=shape_scale(kinds))
    return shape.legend(symbolFillColor=theme.NEUTRAL, symbolStrokeColor=theme.NEUTRAL)


def shape_scale(kinds: list[str]) -> alt.Scale:
    """Return the scale from kinds to the shapes of points."""
    return alt.Scale(domain=kinds, range=theme.kind_shapes(kinds))


def hollow_if_flagged() -> alt.FillOpacityValue:
    """Return the fill opacity of points: those whose `flags` call for caution are hollow."""
    return alt.FillOpacityValue(1, condition={"test": "datum.flags", "value": 0})


def caution_key(data: pd.DataFrame, mark: str = "Hollow points call") -> str:
    """Return a sentence that explains the `mark` of caution, if any of `data` is flagged."""
    return f" {mark} for caution." if data["flags"].fillna("").ne("").any() else ""


def tooltip(data: pd.DataFrame, names: Sequence[str]) -> list[alt.Tooltip]:
    """Return the tooltips of the columns `names`, without columns that are empty in `data`.

    `cell_id` is added as the last one if `data` has it.
    """
    names = [*names, *({"cell_id"} & set(data.columns) - {*names})]
    return [
        alt.Tooltip(
            f"{name}:{_type(data[name])}",
            title=title_of_column(name),
            format=",.4~g" if data[name].dtype == "float64" else alt.Undefined,
        )
        for name in names
        if (data[name].notna() & ~data[name].isin([""])).any()
    ]


def _type(column: "pd.Series[Any]") -> str:
    """Return the Vega-Lite type of a column: `Q` for numbers, `N` for all else."""
    numeric = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    return "Q" if numeric else "N"

"""How figures encode what they draw: axes, colours, shapes, legends and what pointing tells."""

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

# expressions of Vega: a chart on a telephone, and one of two beside each other or narrower; not by
# the signal `width`, which shrinks while the chart is laid out
PHONE = "containerSize()[0] < 360"
HALF = "containerSize()[0] < 500"
TICKS = 12  # on an axis of whole numbers
_LETTERS = 30  # of a line of a label
_PADDED: dict[str, Any] = {"nice": False, "padding": 12}


def nodes_axis(counts: Collection[float], *, every: bool = False) -> alt.X:
    """Return the axis of node counts, with ticks at whole numbers or at `every` count itself."""
    ticks = sorted({int(count) for count in counts}) if every else whole_ticks(counts)
    x = alt.X("nodes:Q", title="Nodes").axis(values=ticks, format="d")
    return x.scale(zero=False, **_PADDED)


def log_nodes_axis() -> alt.X:
    """Return the axis of node counts that double from tick to tick."""
    x = alt.X("nodes:Q", title="Nodes, log scale").scale(type="log", base=2, **_PADDED)
    return x.axis(values=[2**power for power in range(7)], format="d", grid=False)


def whole_ticks(counts: Collection[float]) -> list[int]:
    """Return the whole numbers from the least to the most of `counts`, `TICKS` at the most.

    Left to itself, Vega sets ticks between them where the axis is short, and rounds their labels.
    """
    low, high = int(min(counts)), int(max(counts))
    step = -(-(high - low + 1) // TICKS)
    return [*range(low if step == 1 else -(-low // step) * step, high + 1, step)]


def by_batch(data: pd.DataFrame) -> tuple[alt.Color, alt.Fill]:
    """Return the colours of batches, one ramp from the smallest, for strokes and for points."""
    batches = sorted(map(int, data["batch_per_worker"].unique()))
    colours = theme.batch_colours(batches)
    return by_value("batch_per_worker:O", "Batch per worker", batches, colours, _ordinal())


def by_nodes(data: pd.DataFrame) -> tuple[alt.Color, alt.Fill]:
    """Return the colours of node counts, for strokes and for points."""
    counts = sorted(map(int, data["nodes"].unique()))
    return by_value("nodes:O", "Nodes", counts, theme.node_colours(counts), _ordinal())


def by_value(
    field: str, title: str | None, values: Sequence[Any], colours: Sequence[str], legend: alt.Legend
) -> tuple[alt.Color, alt.Fill]:
    """Return a colour for each value, for strokes and for points, which share the legend."""
    scale = alt.Scale(domain=values, range=colours)
    look: dict[str, Any] = {"title": title, "scale": scale, "legend": legend}
    return alt.Color(field, **look), alt.Fill(field, **look)


def _ordinal() -> alt.Legend:
    return alt.Legend(symbolOpacity=1, columns=legend_columns(4, 6, 8))


def dashed_by_role() -> alt.StrokeDash:
    """Return how a line tells, by `role`, where its formula is fitted and where it predicts."""
    scale = alt.Scale(domain=["fitted", "predicted"], range=[[1, 0], [5, 4]])
    return alt.StrokeDash("role:N", title=None, scale=scale, legend=dash_legend())


def dash_legend(columns: alt.ExprRef | UndefinedType = alt.Undefined) -> alt.Legend:
    """Return the legend of how lines are dashed, its lines long enough to show that."""
    return alt.Legend(
        symbolType="stroke", symbolStrokeColor=theme.NEUTRAL, symbolSize=600, columns=columns
    )


def legend_columns(phone: int, half: int, wide: int) -> alt.ExprRef:
    """Return the number of legend columns: on a telephone, in half a page's width, and in all."""
    return alt.ExprRef(f"{PHONE} ? {phone} : {HALF} ? {half} : {wide}")


def label_expression(titles: Mapping[str, str]) -> str:
    """Return the expression that labels an axis or a legend of names with their titles.

    Long titles take several lines.
    """
    lines = {name: label_lines(title) for name, title in titles.items()}
    return f"({dumps(lines, sort_keys=True)})[datum.value] || datum.label"


def label_lines(title: str) -> list[str]:
    """Return the lines of a label."""
    return wrap(title, _LETTERS, break_long_words=False, break_on_hyphens=False)


def strategy_titles(rows: pd.DataFrame) -> dict[str, str]:
    """Return the titles of the strategies in `rows`, by name."""
    names = rows["line"] if "line" in rows else rows["strategy"]
    return dict(zip(names, rows["strategy_title"], strict=True))


def strategies_behind(rows: pd.DataFrame) -> dict[str, str]:
    """Return the strategies that the names in `rows` stand for, by name."""
    names = rows["line"] if "line" in rows else rows["strategy"]
    return dict(zip(names, rows["variant_of"], strict=True))


def kinds_of(data: pd.DataFrame) -> list[str]:
    """Return the kind labels that occur in `data`, in the order of `KINDS`."""
    order = list(KINDS)
    return sorted(data["kind"].unique(), key=lambda label: (order.index(base_kind(label)), label))


def kind_shape(data: pd.DataFrame) -> alt.Shape:
    """Return the shape of points of each kind; the kinds stand under the title, not in a legend."""
    return alt.Shape("kind:N", legend=None, scale=shape_scale(kinds_of(data)))


def kind_shape_with_legend(kinds: list[str]) -> alt.Shape:
    """Return the shape of points of each kind, which a legend explains."""
    shape = alt.Shape("kind:N", title=None, scale=shape_scale(kinds))
    return shape.legend(symbolFillColor=theme.NEUTRAL, symbolStrokeColor=theme.NEUTRAL)


def shape_scale(kinds: list[str]) -> alt.Scale:
    """Return the scale of the shapes of points of these kinds."""
    return alt.Scale(domain=kinds, range=theme.kind_shapes(kinds))


def hollow_if_flagged() -> alt.FillOpacityValue:
    """Return the filling of points: none where their `flags` call for caution."""
    return alt.FillOpacityValue(1, condition={"test": "datum.flags", "value": 0})


def caution_key(data: pd.DataFrame, mark: str = "Hollow points call") -> str:
    """Say which mark calls for caution, if anything in `data` does."""
    return f" {mark} for caution." if data["flags"].fillna("").ne("").any() else ""


def tooltip(data: pd.DataFrame, names: Sequence[str]) -> list[alt.Tooltip]:
    """Return tooltips for those of `names` that have values in `data`, the cell of a row last."""
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
    """Return whether a column is of numbers (Q) or of names (N)."""
    numeric = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    return "Q" if numeric else "N"

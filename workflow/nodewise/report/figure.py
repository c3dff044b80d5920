"""A figure: its chart, the data it draws, and the words that belong to it."""

import hashlib
import json
import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import altair as alt
import pandas as pd
from altair.utils.schemapi import UndefinedType

from nodewise.core.units import KINDS, base_kind, write_number
from nodewise.report import theme
from nodewise.results.columns import title_of_column
from nodewise.strategies import STRATEGIES

VEGA_LITE = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])

# expressions of Vega: a chart on a telephone, and one of two beside each other or narrower; not by
# the signal `width`, which shrinks while the chart is laid out
PHONE = "containerSize()[0] < 360"
HALF = "containerSize()[0] < 500"
TICKS = 12  # on an axis of whole numbers
LOG: dict[str, Any] = {"type": "log", "nice": False, "padding": 12}


@dataclass(frozen=True)
class View:
    """One way to look at the values of a figure; in the browser readers switch between them.

    Attributes:
        name: what the switch calls it.
        heading: the figure's title.
        field: the column of the values.
        title: the title of their axis, with the unit.
        scale: of their axis; readers can switch that, too.
    """

    name: Literal["absolute", "speedup"]
    heading: str
    field: str
    title: str
    scale: Literal["linear", "log"] = "linear"

    @property
    def axis_title(self) -> str:
        """The title of the axis on its own scale."""
        return f"{self.title}, log scale" if self.scale == "log" else self.title

    def y(self, field: str | None = None) -> alt.Y:
        """Return the vertical axis of the values, or of another `field` that it shares."""
        scale = LOG if self.scale == "log" else {"zero": True}
        return alt.Y(f"{field or self.field}:Q", title=self.axis_title, scale=scale)


@dataclass(frozen=True)
class Figure:
    """One chart and its words.

    Attributes:
        figure: which figure this is, such as `time`.
        of: the axes that all its data share, name -> value.
        layers: the charts that lie on top of each other, the last one uppermost.
        data: what the chart draws.
        title: what is plotted.
        kinds: the kinds of the numbers shown; the chart's subtitle.
        alt: the picture in words, made from the data.
        caption: how to read it.
        views: the ways to look at its values, the one that is drawn first; none if they cannot be
            switched.
        axis: where the values are drawn.
        height: of the plot, in pixels.
        finding: what it shows, in a sentence that becomes its title; empty if too little is known.
        where: the titles of the experiment and the strategy that it is of, if it is of one only.
    """

    figure: str
    of: dict[str, str]
    layers: Sequence[alt.Chart]
    data: pd.DataFrame
    title: str
    kinds: Sequence[str]
    alt: str
    caption: str
    views: Sequence[View] = ()
    axis: Literal["x", "y"] = "y"
    height: int = theme.HEIGHT
    finding: str = ""
    where: Sequence[str] = ()

    @property
    def name(self) -> str:
        """The stem of the figure's files."""
        of = [self.of["curve"]] if "curve" in self.of else self.of.values()
        return re.sub(r"[^a-z0-9_]+", "-", "-".join([*of, self.figure]).lower())

    def spec(self) -> dict[str, Any]:
        """Return the Vega-Lite specification, as wide as its container, with its data inline.

        Layers often share their data, which are written once. (Altair's own layered chart copies
        every layer several times, and reads the data of each anew.)
        """
        frames = {id(layer.data): layer.data for layer in self.layers}
        rows = {frame: _records(data) for frame, data in frames.items()}
        names = {frame: _name(records) for frame, records in rows.items()}
        where = [*self.kinds, *self.where]
        plotted = [self.title, *where] if self.finding else where
        data = [{"data": {"name": names[id(layer.data)]}} for layer in self.layers]
        layers = [_without_data(layer) for layer in self.layers]
        if len(frames) > 1:
            layers = [of | layer for of, layer in zip(data, layers, strict=True)]
        return {
            "config": theme.vega_config(dark=False),
            "layer": layers,
            **(data[0] if len(frames) == 1 else {}),
            "description": self.alt,
            "height": self.height,
            "title": {"text": self.finding or self.title, "subtitle": " · ".join(plotted)},
            "usermeta": {
                "figure": self.figure,
                "of": self.of,
                "kinds": [*self.kinds],
                "caption": self.caption,
                "axis": self.axis,
                "plain": {"text": self.title, "subtitle": " · ".join(where)},
                "views": [asdict(view) for view in self.views if self._has(view.field)],
            },
            "width": "container",
            "$schema": alt.SCHEMA_URL,
            "datasets": {names[frame]: records for frame, records in rows.items()},
        }

    def _has(self, column: str) -> bool:
        return column not in self.data or bool(self.data[column].notna().any())

    def csv(self) -> str:
        """Return the data as CSV."""
        return self.data.to_csv(index=False, lineterminator="\n")


def _without_data(layer: alt.Chart) -> dict[str, Any]:
    """Return the specification of a layer alone; every field of it says its type."""
    bare = layer.copy(deep=False)
    bare.data = alt.Undefined
    # Altair's check of every piece would take most of the time; the tests check each whole
    spec: dict[str, Any] = bare.to_dict(validate=False, context={"data": None, "top_level": False})
    return spec


def _records(data: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of `data` as JSON has them."""
    rows = data.astype(object).to_numpy().tolist()
    return [dict(zip(data.columns, map(_or_null, row), strict=True)) for row in rows]


def _or_null(value: object) -> object:
    """Return `value`, or None if it is missing or not finite."""
    if value is pd.NA or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value


def _name(records: list[dict[str, Any]]) -> str:
    """Return the name of data, which is the same for the same rows."""
    text = json.dumps(records, sort_keys=True)
    return f"data-{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def whole(counts: Collection[float]) -> list[int]:
    """Return the whole numbers from the least to the most of `counts`, `TICKS` at the most.

    Left to itself, Vega sets ticks between them where the axis is short, and rounds their labels.
    """
    low, high = int(min(counts)), int(max(counts))
    step = -(-(high - low + 1) // TICKS)
    return [*range(low if step == 1 else -(-low // step) * step, high + 1, step)]


def called(name: str) -> str:
    """Return the short title of a strategy; a name that a study gave stays as it is."""
    return STRATEGIES[name].short_title if name in STRATEGIES else name


def calling(names: Iterable[str]) -> str:
    """Return the expression that labels an axis or a legend of strategies with their titles."""
    titles = json.dumps({name: called(name) for name in sorted(set(names))})
    return f"({titles})[datum.value] || datum.label"


def of_lines(columns: alt.ExprRef | UndefinedType = alt.Undefined) -> alt.Legend:
    """Return the legend of how lines are dashed, its lines long enough to show that."""
    return alt.Legend(
        symbolType="stroke",
        symbolStrokeColor=theme.NEUTRAL,
        symbolSize=600,
        columns=columns,
    )


def few(phone: int, half: int, wide: int) -> alt.ExprRef:
    """Return the number of legend columns: on a telephone, in half a page's width, and in all."""
    return alt.ExprRef(f"{PHONE} ? {phone} : {HALF} ? {half} : {wide}")


def spec_json(spec: dict[str, Any]) -> str:
    """Return a specification as text; equal specifications give equal text."""
    return json.dumps(spec, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"


def inline(data: pd.DataFrame) -> pd.DataFrame:
    """Return `data` with five significant digits: enough to draw, and half the specification."""
    floats = [str(name) for name in data.select_dtypes("float64").columns]
    return data.assign(
        **{name: data[name].map(lambda value: float(f"{value:.5g}")) for name in floats}
    )


def kinds_of(data: pd.DataFrame) -> list[str]:
    """Return the kind labels that occur in `data`, in the order of `KINDS`."""
    order = list(KINDS)
    return sorted(data["kind"].unique(), key=lambda label: (order.index(base_kind(label)), label))


def kind_shape(data: pd.DataFrame) -> alt.Shape:
    """Return the shape of points of each kind; the kinds stand under the title, not in a legend."""
    return alt.Shape("kind:N", legend=None, scale=shapes_of(kinds_of(data)))


def shapes_of(kinds: list[str]) -> alt.Scale:
    """Return the scale of the shapes of points of these kinds."""
    return alt.Scale(domain=kinds, range=theme.kind_shapes(kinds))


def hollow() -> alt.FillOpacityValue:
    """Return the filling of points: none where something is amiss with them."""
    return alt.FillOpacityValue(1, condition={"test": "datum.flags", "value": 0})


def tooltip(data: pd.DataFrame, names: Sequence[str]) -> list[alt.Tooltip]:
    """Return tooltips for those of `names` that have values in `data`, the cell of a row last."""
    names = [*names, *({"cell_id"} & set(data.columns) - {*names})]
    told = {name: (data[name].notna() & ~data[name].isin([""])).any() for name in names}
    return [
        alt.Tooltip(
            f"{name}:{_type(data[name])}",
            title=title_of_column(name),
            format=",.4~g" if data[name].dtype == "float64" else alt.Undefined,
        )
        for name in names
        if told[name]
    ]


def _type(column: "pd.Series[Any]") -> str:
    """Return whether a column is of numbers (Q) or of names (N)."""
    numeric = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    return "Q" if numeric else "N"


def in_words(data: pd.DataFrame, value: str, unit: str) -> str:
    """Say, kind by kind, the values over the nodes at the smallest and at the largest batch.

    Where several lines have such a point it is the least and the greatest of them.
    """
    columns = [data[name].tolist() for name in ("kind", "batch_per_worker", "nodes", value)]
    rows = list(zip(*columns, strict=True))
    sentences = []
    for kind in kinds_of(data):
        points = [point for of, *point in rows if of == kind]
        batches = [batch for batch, _, _ in points]
        parts = [
            _over_nodes([point for of, *point in points if of == batch], batch, unit)
            for batch in dict.fromkeys((min(batches), max(batches)))
        ]
        sentences.append(f"{kind.capitalize()}: {'; '.join(parts)}.")
    return " ".join(sentences)


def _over_nodes(points: list[list[Any]], batch: int, unit: str) -> str:
    """Say the values of `points`, each a number of nodes and a value, in the order of the nodes."""
    by_nodes: dict[int, list[float]] = {}
    for nodes, value in points:
        by_nodes.setdefault(nodes, []).append(value)
    said = []
    for nodes, values in sorted(by_nodes.items()):
        known = [value for value in values if not math.isnan(value)] or [math.nan]
        ends = dict.fromkeys(write_number(end, unit) for end in (min(known), max(known)))
        said.append(f"{' to '.join(ends)} on {nodes}")
    plural = "s" if max(by_nodes) > 1 else ""
    return f"batch {batch}, {', '.join(said)} node{plural}"

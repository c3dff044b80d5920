"""Define a figure: a chart, the data that it draws, and its words."""

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import altair as alt
import pandas as pd

from nodewise.report import theme

VEGA_LITE = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])

NOT_FROM_ZERO = ", not from 0"
"""Ending of the title of a value axis that is linear and does not begin at 0."""
LOG: dict[str, Any] = {"type": "log", "nice": False, "padding": 12}
_NAMES = ("line", "strategy")  # columns that hold names of strategies


@dataclass(frozen=True)
class View:
    """What the value axis of a figure shows.

    Attributes:
        heading: the title of the figure.
        field: the column of the values.
        title: the title of the value axis, with the unit.
        scale: the scale of the value axis.
    """

    heading: str
    field: str
    title: str
    scale: Literal["linear", "log"] = "linear"

    @property
    def axis_title(self) -> str:
        """The title of the value axis, which says so if its scale is logarithmic."""
        return f"{self.title}, log scale" if self.scale == "log" else self.title

    def y(self, field: str | None = None) -> alt.Y:
        """Return the vertical axis for the values, or for another `field` on the same axis."""
        scale = LOG if self.scale == "log" else {"zero": True}
        return alt.Y(f"{field or self.field}:Q", title=self.axis_title, scale=scale)


class Layer(NamedTuple):
    """A layer of a chart: its specification without data, and its data."""

    spec: dict[str, Any]
    data: pd.DataFrame


@dataclass(frozen=True)
class Figure:
    """A chart with its data and its words.

    The functions in `figures/` leave out `figure`, `where` and `titles`, which `draw_figures` sets.
    It also completes `of`.

    Attributes:
        layers: charts that are drawn on top of each other, the last one uppermost.
        data: the data that the chart draws.
        title: what is plotted.
        kinds: the kinds of the numbers shown, for the subtitle.
        alt: a description of the picture in words, made from the data.
        caption: how to read the figure.
        axis: the axis of the values.
        height: the height of the plot in pixels.
        finding: a sentence that says what the figure shows. It becomes the title; it is empty if
            too little is known.
        ends: the range of the value axis, if the figure shares it with other panels of its chart.
        figure: the name under which the figure is registered, such as `time`.
        of: the axes along which all its data have the same value, name -> value.
        where: the titles of the experiment and the strategy, if the figure shows only one.
        titles: the titles of the strategies that are named in the data.
    """

    layers: Sequence[alt.Chart]
    data: pd.DataFrame
    title: str
    kinds: Sequence[str]
    alt: str
    caption: str
    axis: Literal["x", "y"] = "y"
    height: int = theme.HEIGHT
    finding: str = ""
    ends: tuple[float, float] | None = None
    figure: str = ""
    of: Mapping[str, str] = field(default_factory=dict)
    where: Sequence[str] = ()
    titles: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the figure's files, without their endings."""
        telling = ("curve", "panel") if "curve" in self.of else self.of
        of = [self.of[axis] for axis in telling if axis in self.of]
        return re.sub(r"[^a-z0-9_]+", "-", "-".join([*of, self.figure]).lower())

    def spec(self) -> dict[str, Any]:
        """Return the Vega-Lite specification, as wide as its container, with its data inline.

        Data that several layers share are written once. This does not use Altair's own layered
        chart, which copies every layer several times and processes its data each time.
        """
        layers = self._layers()
        frames = {id(layer.data): layer.data for layer in layers}
        rows = {frame: _records(data) for frame, data in frames.items()}
        names = {frame: _name(records) for frame, records in rows.items()}
        data = [{"data": {"name": names[id(layer.data)]}} for layer in layers]
        shared = len(frames) == 1
        plotted = [self.title, *self._plain] if self.finding else self._plain
        return {
            "config": theme.vega_config(dark=False),
            "layer": [
                layer.spec if shared else of | layer.spec
                for of, layer in zip(data, layers, strict=True)
            ],
            **(data[0] if shared else {}),
            "description": self.alt,
            "height": self.height,
            "title": {"text": self.finding or self.title, "subtitle": " · ".join(plotted)},
            "usermeta": self._about(),
            "width": "container",
            "$schema": alt.SCHEMA_URL,
            "datasets": {names[frame]: records for frame, records in rows.items()},
        }

    @property
    def _plain(self) -> list[str]:
        """The parts of the subtitle if the title says what is plotted."""
        return [*self.kinds, *self.where]

    def _about(self) -> dict[str, Any]:
        """Return what pages and their scripts need to know about the figure besides the chart."""
        return {
            "figure": self.figure,
            "of": self.of,
            "kinds": [*self.kinds],
            "caption": self.caption,
            "axis": self.axis,
            "plain": {"text": self.title, "subtitle": " · ".join(self._plain)},
        }

    def _layers(self) -> list[Layer]:
        """Return the layers, with titles in tooltips and with the shared range of the axis."""
        found = []
        for layer in self.layers:
            spec = _with_titles(_without_data(layer), self.titles)
            if self.ends:
                spec = _with_ends(spec, self.axis, *self.ends)
            found.append(Layer(spec, layer.data))
        return found

    def csv(self) -> str:
        """Return the data as CSV."""
        return self.data.to_csv(index=False, lineterminator="\n")

    def values(self) -> pd.Series:
        """Return all values along the value axis."""
        found: list[pd.Series] = []
        for spec, data in self._layers():
            ends = (self.axis, f"{self.axis}2")
            fields = (spec["encoding"].get(end, {}).get("field") for end in ends)
            found += [data[name] for name in fields if name in data]
        values: pd.Series = pd.concat(found)
        return values


def share_axis(panels: Sequence[Figure]) -> list[Figure]:
    """Return the panels of one chart with the same range of the value axis."""
    if len(panels) < 2:
        return [*panels]
    values = pd.concat([panel.values() for panel in panels])
    ends = float(values.min()), float(values.max())
    return [replace(panel, ends=ends) for panel in panels]


def _with_ends(spec: dict[str, Any], axis: str, low: float, high: float) -> dict[str, Any]:
    """Return a layer with the range `low` to `high` of an axis.

    Settings that the layer's own scale already has are kept, and an axis that includes zero still
    does.
    """
    channel = spec["encoding"].get(axis, {})
    if "field" not in channel:
        return spec
    scale = channel.get("scale", {})
    ends = {"domainMin": min(low, 0) if scale.get("zero") else low, "domainMax": high}
    return spec | {"encoding": spec["encoding"] | {axis: channel | {"scale": ends | scale}}}


def _with_titles(spec: dict[str, Any], titles: Mapping[str, str]) -> dict[str, Any]:
    """Return a layer whose tooltips show the titles of strategies instead of their names."""
    tips = spec["encoding"].get("tooltip", [])
    names = [tip["field"] for tip in tips if tip["field"] in _NAMES]
    if not names:
        return spec
    of_names = json.dumps(titles, sort_keys=True)
    calculated = [
        {"calculate": f"({of_names})[datum.{name}] || datum.{name}", "as": f"{name}_title"}
        for name in names
    ]
    told = [
        tip | {"field": f"{tip['field']}_title"} if tip["field"] in _NAMES else tip for tip in tips
    ]
    encoding = spec["encoding"] | {"tooltip": told}
    return spec | {"encoding": encoding, "transform": spec.get("transform", []) + calculated}


def _without_data(layer: alt.Chart) -> dict[str, Any]:
    """Return the specification of a layer without its data, in which each field has its type."""
    bare = layer.copy(deep=False)
    bare.data = alt.Undefined
    # validating every layer would take most of the time; the tests validate whole specifications
    spec: dict[str, Any] = bare.to_dict(validate=False, context={"data": None, "top_level": False})
    return spec


def _records(data: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of `data` as values that JSON can represent."""
    rows = data.astype(object).to_numpy().tolist()
    return [dict(zip(data.columns, map(_or_null, row), strict=True)) for row in rows]


def _or_null(value: object) -> object:
    """Return `value`, or None if it is missing or not finite."""
    if value is pd.NA or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value


def _name(records: list[dict[str, Any]]) -> str:
    """Return a name for data that depends on their content only: equal rows have equal names."""
    text = json.dumps(records, sort_keys=True)
    return f"data-{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def spec_json(spec: dict[str, Any]) -> str:
    """Return a specification as JSON text; equal specifications give equal text."""
    return json.dumps(spec, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"


def inline(data: pd.DataFrame) -> pd.DataFrame:
    """Round the floats of `data` to five significant digits.

    This is enough for drawing and halves the size of the specification.
    """
    floats = [str(name) for name in data.select_dtypes("float64").columns]
    return data.assign(
        **{name: data[name].map(lambda value: float(f"{value:.5g}")) for name in floats}
    )

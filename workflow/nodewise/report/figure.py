"""A figure: its chart, the data it draws, and the words that belong to it."""

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import altair as alt
import pandas as pd

from nodewise.report import theme
from nodewise.report.line_labels import Layer, label_lines, values_along

VEGA_LITE = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])

NOT_FROM_ZERO = ", not from 0"
"""What the title of an axis of values ends in that begins elsewhere, and is not logarithmic."""
LOG: dict[str, Any] = {"type": "log", "nice": False, "padding": 12}
_NAMES = ("line", "strategy")  # columns of names of strategies


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
        ends: the stretch of the axis that it shares with the other panels of its chart, if any.
        figure: the name under which it is registered, such as `time`, from `draw_figures` on.
        of: the axes that all its data share, name -> value, from then on.
        where: the titles of the experiment and the strategy that it is of, if it is of one only.
        titles: those of the strategies that its data name.
        line_titles: those of its lines, by the names that tell them apart, if these are none.
    """

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
    ends: tuple[float, float] | None = None
    figure: str = ""
    of: Mapping[str, str] = field(default_factory=dict)
    where: Sequence[str] = ()
    titles: Mapping[str, str] = field(default_factory=dict)
    line_titles: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The stem of the figure's files."""
        telling = ("curve", "panel") if "curve" in self.of else self.of
        of = [self.of[axis] for axis in telling if axis in self.of]
        return re.sub(r"[^a-z0-9_]+", "-", "-".join([*of, self.figure]).lower())

    def spec(self) -> dict[str, Any]:
        """Return the Vega-Lite specification, as wide as its container, with its data inline.

        Layers often share their data, which are written once. (Altair's own layered chart copies
        every layer several times, and reads the data of each anew.)
        """
        layers, labels = label_lines(self._layers(), self.line_titles, self.height)
        moving = labels and "xOffset" in layers[-1].spec["encoding"]
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
            **({"padding": theme.PADDING_BESIDE_NAMES} if moving else {}),
            "title": {"text": self.finding or self.title, "subtitle": " · ".join(plotted)},
            "usermeta": self._about(labels),
            "width": "container",
            "$schema": alt.SCHEMA_URL,
            "datasets": {names[frame]: records for frame, records in rows.items()},
        }

    @property
    def _plain(self) -> list[str]:
        """What the subtitle says if the title is what is plotted."""
        return [*self.kinds, *self.where]

    def _about(self, labels: dict[str, Any] | None) -> dict[str, Any]:
        """Return what pages and their scripts need to know besides the chart."""
        return {
            "figure": self.figure,
            "of": self.of,
            "kinds": [*self.kinds],
            "caption": self.caption,
            "axis": self.axis,
            "labels": labels,
            "plain": {"text": self.title, "subtitle": " · ".join(self._plain)},
            "views": [asdict(view) for view in self.views if self._has(view.field)],
        }

    def _layers(self) -> list[Layer]:
        """Return its layers, with titles where pointing tells names, and on the axis it shares."""
        found = []
        for layer in self.layers:
            spec = _with_titles(_without_data(layer), self.titles)
            if self.ends:
                spec = _with_ends(spec, self.axis, *self.ends)
            found.append(Layer(spec, layer.data))
        return found

    def _has(self, column: str) -> bool:
        return column not in self.data or bool(self.data[column].notna().any())

    def csv(self) -> str:
        """Return the data as CSV."""
        return self.data.to_csv(index=False, lineterminator="\n")

    def values(self) -> pd.Series:
        """Return all values along its axis."""
        return values_along(self._layers(), self.axis)


def share_axis(panels: Sequence[Figure]) -> list[Figure]:
    """Return the panels of one chart with the same stretch of the axis of their values."""
    if len(panels) < 2:
        return [*panels]
    values = pd.concat([panel.values() for panel in panels])
    ends = float(values.min()), float(values.max())
    return [replace(panel, ends=ends) for panel in panels]


def _with_ends(spec: dict[str, Any], axis: str, low: float, high: float) -> dict[str, Any]:
    """Return a layer with the ends of an axis; what its scale says itself stays."""
    channel = spec["encoding"].get(axis, {})
    if "field" not in channel:
        return spec
    scale = channel.get("scale", {})
    ends = {"domainMin": min(low, 0) if scale.get("zero") else low, "domainMax": high}
    return spec | {"encoding": spec["encoding"] | {axis: channel | {"scale": ends | scale}}}


def _with_titles(spec: dict[str, Any], titles: Mapping[str, str]) -> dict[str, Any]:
    """Return a layer where pointing at a mark tells the title of its strategy, not the name."""
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


def spec_json(spec: dict[str, Any]) -> str:
    """Return a specification as text; equal specifications give equal text."""
    return json.dumps(spec, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"


def inline(data: pd.DataFrame) -> pd.DataFrame:
    """Return `data` with five significant digits: enough to draw, and half the specification."""
    floats = [str(name) for name in data.select_dtypes("float64").columns]
    return data.assign(
        **{name: data[name].map(lambda value: float(f"{value:.5g}")) for name in floats}
    )

"""Label lines at their right ends instead of in a legend, if there is room for all labels."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from nodewise.core.units import counted

LAYER = "labels"
"""The name of the layer of labels, which `charts.js` removes where there is less room."""
APART = 16
"""Least distance in pixels between the middles of two labels.

It may be a few pixels less if Vega rounds the ends of the axis.
"""
LETTERS = 28
"""Most letters of a label."""
_LETTER, _BESIDE = 6.4, 8  # pixels: the width of a letter, and the gap between line and label
_CHANNELS = ("color", "fill", "strokeDash")  # the channels that the legend of lines explains
_IN_WORDS: dict[str, Callable[[Any], str]] = {
    "batch_per_worker": "batch {}".format,
    "nodes": lambda nodes: counted(nodes, "node"),
}


class Layer(NamedTuple):
    """A layer of a chart: its specification without data, and its data."""

    spec: dict[str, Any]
    data: pd.DataFrame


def label_lines(
    layers: Sequence[Layer], titles: Mapping[str, str], height: int
) -> tuple[list[Layer], dict[str, Any] | None]:
    """Label lines at their right ends instead of in a legend, if there is room for all labels.

    There is room if every line ends at the right end of the plot, each at exactly one point and far
    enough from the others, and no label is longer than `LETTERS`.

    Args:
        layers: the layers of the chart.
        titles: the titles of lines whose names are not titles, by name.
        height: the height of the plot in pixels.

    Returns:
        The layers and a dictionary. With room, the layers have no legend, and a layer of labels
        comes last. The dictionary has what a script needs to restore the legend: the `legend`, the
        `field` that it explains, and the `room` in pixels that the labels take beside the plot.
        Without room, the layers are unchanged and the dictionary is None.
    """
    lines = next((layer for layer in layers if _draws_lines(layer.spec)), None)
    if lines is None:
        return [*layers], None
    encoding = lines.spec["encoding"]
    ends = _right_ends(lines.data, encoding, titles)
    if ends.empty or not _are_apart(ends, encoding["y"], values_along(layers, "y"), height):
        return [*layers], None
    longest = int(ends["label"].str.len().max())
    if longest > LETTERS:
        return [*layers], None
    field, legend = encoding["color"]["field"], encoding["color"].get("legend", {})
    mark = {"type": "text", "align": "left", "dx": _BESIDE, "fontSize": 12}
    at = {axis: encoding[axis] for axis in ("x", "xOffset", "y") if axis in encoding}
    text = {"field": "label", "type": "nominal"}
    names = Layer({"name": LAYER, "mark": mark, "encoding": at | {"text": text}}, ends)
    bare = [Layer(_without_legend(layer.spec, field), layer.data) for layer in layers]
    room = round(_BESIDE + _LETTER * longest)
    return [*bare, names], {"field": field, "legend": legend, "room": room}


def values_along(layers: Sequence[Layer], axis: str) -> pd.Series:
    """Return all values of the layers along an axis."""
    found: list[pd.Series] = []
    for spec, data in layers:
        fields = (spec["encoding"].get(end, {}).get("field") for end in (axis, f"{axis}2"))
        found += [data[name] for name in fields if name in data]
    values: pd.Series = pd.concat(found)
    return values


def _draws_lines(spec: dict[str, Any]) -> bool:
    mark = spec["mark"]
    is_line = (mark if isinstance(mark, str) else mark["type"]) == "line"
    return is_line and "field" in spec["encoding"].get("color", {})


def _without_legend(spec: dict[str, Any], field: str) -> dict[str, Any]:
    """Return the specification of a layer without the legend of a field."""
    encoding = spec["encoding"]
    bare = {
        channel: encoding[channel] | {"legend": None}
        for channel in _CHANNELS
        if encoding.get(channel, {}).get("field") == field
    }
    return spec | {"encoding": encoding | bare}


def _right_ends(
    rows: pd.DataFrame, encoding: Mapping[str, Any], titles: Mapping[str, str]
) -> pd.DataFrame:
    """Return the right end of each line with its `label`.

    The result is empty unless every line has exactly one point at the right end of the plot.
    """
    line, value = encoding["color"]["field"], encoding["y"]["field"]
    across = [encoding[axis]["field"] for axis in ("x", "xOffset") if axis in encoding]
    rows = rows[[*across, line, value]].dropna(subset=[value])
    ends = rows
    for axis in across:
        ends = ends[ends[axis] == ends[axis].max()]
    ends = ends.drop_duplicates()
    if sorted(ends[line]) != sorted(rows[line].unique()):
        return ends[:0]
    in_words = _IN_WORDS.get(line, lambda name: titles.get(name, name))
    return ends.assign(label=[in_words(name) for name in ends[line]])


def _are_apart(
    ends: pd.DataFrame, channel: Mapping[str, Any], values: pd.Series, height: int
) -> bool:
    """Return whether the ends of lines are at least `APART` pixels from each other.

    Args:
        ends: the right ends of the lines.
        channel: the encoding of the vertical axis.
        values: all values along that axis.
        height: the height of the plot in pixels.
    """
    scale = channel.get("scale", {})
    along = np.log if scale.get("type") == "log" else np.asarray
    low, high = scale.get("domainMin", values.min()), scale.get("domainMax", values.max())
    bottom, top = along([min(low, 0) if scale.get("zero") else low, high])
    least = APART * (top - bottom) / (height - 2 * scale.get("padding", 0))
    return bool((np.diff(np.sort(along(ends[channel["field"]]))) > least).all())

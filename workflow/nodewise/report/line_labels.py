"""Names of lines at their right ends, instead of a legend, where there is room for all of them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from nodewise.core.units import counted

LAYER = "labels"
"""The name of their layer, which `charts.js` takes away where there is less room."""
APART = 16
"""Pixels between the middles of two labels, at least; a few less where an axis is rounded."""
LETTERS = 28
"""How long a label may be."""
_LETTER, _BESIDE = 6.4, 8  # pixels: of a letter, and between the end of a line and its label
_CHANNELS = ("color", "fill", "strokeDash")  # which the legend of lines explains
_IN_WORDS: dict[str, Callable[[Any], str]] = {
    "batch_per_worker": "batch {}".format,
    "nodes": lambda nodes: counted(nodes, "node"),
}


class Layer(NamedTuple):
    """A layer of a chart: its specification without data, and what it draws."""

    spec: dict[str, Any]
    data: pd.DataFrame


def label_lines(
    layers: Sequence[Layer], titles: Mapping[str, str], height: int
) -> tuple[list[Layer], dict[str, Any] | None]:
    """Name lines at their right ends instead of in a legend, if there is room for all of them.

    There is if all lines end at the right end of the plot, each of them once and far enough from
    the others, and no name is long.

    Args:
        layers: those of a chart.
        titles: those of lines whose name is none.
        height: of the plot, in pixels.

    Returns:
        The layers without the legend, that of the labels last; and what it takes to have the legend
        back: the `legend` and the `field` that it explains, and the `room` that the labels need
        beside the lines, in pixels. Where there is no room, the layers as they are, and None.
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
    """Return all values that layers have along an axis."""
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
    """Return the specification of a layer without the legend that explains a field."""
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
    """Return the right end of each line with its `label`; nothing if not all end there, once."""
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
    """Return whether ends of lines are far enough from each other along an axis of `values`."""
    scale = channel.get("scale", {})
    along = np.log if scale.get("type") == "log" else np.asarray
    low, high = scale.get("domainMin", values.min()), scale.get("domainMax", values.max())
    bottom, top = along([min(low, 0) if scale.get("zero") else low, high])
    least = APART * (top - bottom) / (height - 2 * scale.get("padding", 0))
    return bool((np.diff(np.sort(along(ends[channel["field"]]))) > least).all())

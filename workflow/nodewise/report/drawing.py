"""Draw the rows of a chart as Vega-Lite, as its figure declares."""

import json
import re
from collections.abc import Sequence
from textwrap import wrap
from typing import Any

import pandas as pd

from nodewise.report import theme
from nodewise.report.figure import Axis, Figure
from nodewise.results.columns import title_of_column

VEGA_LITE = "6.4"
MOST_LINES = 6
"""Most lines of a plot."""
NOT_FROM_ZERO = ", not from 0"
"""Ending of the title of a value axis that is linear and does not begin at 0."""
ROLES = {"fitted": [1, 0], "predicted": [5, 4]}
"""The roles of rows that are lines, with their dashes."""
UNSEEN = {"cell_id", "page", "lacks", "rank", "panel", "bar", "ahead", "on_devices"}
"""Columns that are not for readers."""
LETTER, TITLE_LETTER = 7.2, 9.6  # widths of a letter in pixels, as in charts.js
_GAP, _NARROW = 12, 520  # pixels between panels, and of a narrow chart, as in charts.js

Spec = dict[str, Any]
_NAME_LETTERS, _LEGEND_LETTERS = 22, 30  # most letters of a line of a name
_FEW_TICKS = 8  # most numbers of nodes that are all written at their axis
_WIDTH_OF_ACCURACY = 0.05  # least width of an axis of accuracies
_IS_LINE = f"indexof({[*ROLES]}, datum.role) >= 0"
_FORMATS = {"": "~s", "share": ".0%", "/s": "~s", "B": "~s", "FLOP": "~s", "FLOP/B": "~s"}
# points that differ in one of these are not joined
_APART = ["kind", "experiment", "cluster", "machine", "line", "strategy", "role"]


def draw(figure: Figure, data: pd.DataFrame) -> Spec:
    """Return the specification of a chart, except for its title and its description.

    It is as wide as its container. Small multiples have a width of their own instead, which pages
    set, as they set the columns; `usermeta` says what they need to know for this: the number of
    `panels`, their `least` width, the pixels `left` of them, and the most `letters` of a line of a
    legend.

    Args:
        figure: the figure.
        data: the rows of the chart, with titles instead of names.
    """
    colour, facet = figure.colour, figure.facet
    if not facet and figure.mark != "bar" and _count(data, colour) > MOST_LINES:
        colour, facet = "", colour
    panels = _panels(data, facet) if _count(data, facet) > 1 else {}
    names = _lines_of(data[figure.y.field]) if figure.y.scale == "names" else {}
    # all rows are as high as the name with the most lines needs
    row = max(26, *(15 * len(name) for name in names.values())) if names else 0
    height = row * len(names) or theme.HEIGHT
    plot: Spec = {
        "width": "container",
        "height": height if names or not panels else theme.PANEL,
        "layer": _bars(figure, data) if figure.mark == "bar" else _lines(figure, data, colour),
    }
    legend = _lines_of(data[colour], _LEGEND_LETTERS) if colour else {}
    about = {
        "figure": figure.name,
        "panels": len(panels),
        "least": 200 if names else 110,
        "left": int(_longest(names) * LETTER) + 24 if names else 90,
        "letters": _longest(legend),
    }
    if panels:
        del plot["width"]
        plot = {
            "facet": {
                "field": "panel",
                "type": "nominal",
                "sort": [*panels.values()],
                "title": None,
                "header": _broken(_lines_of(pd.Series([*panels.values()]))),
            },
            "columns": min(len(panels), 2 if names else 3),
            "spacing": {"row": 20, "column": _GAP},
            "align": "each",
            "spec": plot,
            "resolve": {"scale": {"x": "independent" if figure.free else "shared"}},
        }
        data = data.assign(panel=data[facet].map(panels))
    return {
        "$schema": f"https://vega.github.io/schema/vega-lite/v{VEGA_LITE}.json",
        "config": theme.vega_config(dark=False),
        "usermeta": about,
        "data": {"values": _values(figure, data)},
        **plot,
    }


def at_width(spec: Spec, width: int) -> Spec:
    """Return a specification with a fixed width on white; charts.js does the same on pages."""
    title = {
        "text": wrap(spec["title"]["text"], int(width / TITLE_LETTER)),
        "subtitle": wrap(spec["title"]["subtitle"], int(width / LETTER)),
    }
    about, room = spec["usermeta"], width - spec["usermeta"]["left"]
    columns = max(1, int(room / (LETTER * about["letters"] + 40)))
    config = spec["config"] | {"background": "white"}
    config["legend"] = config["legend"] | {"columns": columns}
    alone = spec | {"title": title, "config": config}
    if "spec" in spec:
        panels = min(spec["columns"], max(1, room // about["least"]))
        of_panel = int(room / panels) - _GAP
        return alone | {"columns": panels, "spec": spec["spec"] | {"width": of_panel}}
    if width < _NARROW and spec["height"] == theme.HEIGHT:
        alone["height"] = 0.75 * theme.HEIGHT
    return alone | {"width": width, "autosize": {"type": "fit-x", "contains": "padding"}}


# --- marks ---


def _lines(figure: Figure, data: pd.DataFrame, colour: str) -> list[Spec]:
    """Return the layers of a figure of lines or points, the points uppermost."""
    has_lines = "role" in data
    is_line = data["role"].isin(ROLES) if has_lines else pd.Series(False, data.index)
    of_lines, of_points = ([_IS_LINE], [f"!({_IS_LINE})"]) if has_lines else ([], [])
    places, tooltip = _places(figure, data), {"tooltip": _tooltip(figure, data)}
    coloured = _coloured(data, colour, "color")
    apart = [name for name in _APART if name in data and data[name].nunique() > 1]
    joined = coloured | ({"detail": [_name(name) for name in apart]} if apart else {})
    layers = _guide(figure, data)
    if has_lines:
        area = {"type": "area", "opacity": 0.13}
        layers += _interval(figure, data[is_line], area, of_lines, places | joined)
    if has_lines or figure.mark == "line":
        dashes = _dashes(data) if has_lines else _coloured(data, colour, "strokeDash")
        line = {"type": "line", "strokeWidth": 1.8, "opacity": 0.8}
        layers += [_layer(line, of_lines, places | joined | dashes | tooltip)]
    elif figure.y.scale == "names":
        ends = {"x": _number(figure.x.field) | {"aggregate": "min"}}
        ends["x2"] = {"field": figure.x.field, "aggregate": "max"}
        layers += [_layer({"type": "rule", "opacity": 0.5}, [], places | ends)]
    rule = {"type": "rule", "strokeWidth": 2}
    layers += _interval(figure, data[~is_line], rule, of_points, places | coloured)
    if not is_line.all():
        point = {"type": "point", "size": 60, "strokeWidth": 2, "opacity": 1}
        look = _coloured(data, colour, "color", "fill", "shape") | _filled(data, 0, 0.3)
        layers += [_layer(point, of_points, places | look | tooltip)]
    return layers


def _bars(figure: Figure, data: pd.DataFrame) -> list[Spec]:
    """Return stacked bars and their intervals."""
    order, places = _ordered(data[figure.colour]), _places(figure, data)
    rank = {"calculate": f"indexof({json.dumps(order)}, datum.{figure.colour})", "as": "rank"}
    stacked = {"x": places["x"] | {"stack": "zero"}, "order": _number("rank")}
    look = _coloured(data, figure.colour, "color") | _filled(data, 0.4, 1)
    look |= {"tooltip": _tooltip(figure, data)}
    one = f"datum.{figure.colour} == {json.dumps(order[0])}"  # each bar has one interval
    line = {"type": "rule", "style": "interval", "strokeWidth": 1.5}
    return [
        _layer({"type": "bar"}, [rank], places | stacked | look),
        *_interval(figure, data, line, [one], places),
    ]


def _layer(mark: Spec, steps: Sequence[str | Spec], encoding: Spec) -> Spec:
    """Return a layer; of `steps`, texts are filters."""
    transform = [{"filter": step} if isinstance(step, str) else step for step in steps]
    return {"mark": mark, "transform": transform, "encoding": encoding}


def _interval(
    figure: Figure, rows: pd.DataFrame, mark: Spec, steps: Sequence[str], encoding: Spec
) -> list[Spec]:
    """Return the layer of the intervals of some rows, if they have any."""
    low, high = figure.interval or ("", "")
    if not low or rows[low].isna().all():
        return []
    along = "x" if figure.y.scale == "names" else "y"
    ends = {along: _number(low), f"{along}2": {"field": high}}
    return [_layer(mark, [*steps, f"isValid(datum.{low})"], encoding | ends)]


def _guide(figure: Figure, data: pd.DataFrame) -> list[Spec]:
    """Return the dashed line, if the figure has one."""
    look = {"strokeDash": [3, 4], "strokeWidth": 1.5, "color": theme.NEUTRAL}
    if figure.guide == "one":
        along = "x" if figure.y.scale == "names" else "y"
        encoding: Spec = {along: {"datum": 1, "type": "quantitative"}}
        return [{"data": {"values": [{}]}, "mark": {"type": "rule"} | look, "encoding": encoding}]
    if figure.guide == "diagonal":
        x, y = figure.x.field, figure.y.field
        ends = [{x: end, y: end} for end in data[x].agg(["min", "max"]).tolist()]
        line = {"type": "line"} | look
        return [{"data": {"values": ends}, "mark": line, "encoding": _places(figure, data)}]
    return []


# --- encodings ---


def _places(figure: Figure, data: pd.DataFrame) -> Spec:
    """Return the encodings of both axes."""
    return {channel: _axis(figure, data, channel) for channel in ("x", "y")}


def _axis(figure: Figure, data: pd.DataFrame, channel: str) -> Spec:
    axis: Axis = getattr(figure, channel)
    values = data[axis.field]
    if axis.scale == "names":
        lines = _lines_of(values)
        labels: Spec = _broken(lines) | {"labelLineHeight": 13, "ticks": False}
        # fonts of readers may be wider than those with which the static picture is laid out
        labels["minExtent"] = int(_longest(lines) * LETTER)
        shown = {"title": axis.title or None, "sort": _ordered(values), "axis": labels}
        return _name(axis.field) | shown
    whole = pd.api.types.is_integer_dtype(values)
    small = axis.unit != "share" and values.min() < 1  # "~s" writes 0.5 as 500m
    labels = {"format": "~g" if small else _FORMATS.get(axis.unit, "~g"), "tickCount": 5}
    if whole:
        labels = {"format": ",d", "tickCount": 10, "tickMinStep": 1}
        if channel == "x" and axis.scale != "log" and values.nunique() <= _FEW_TICKS:
            labels = {"format": ",d", "values": sorted(map(int, values.unique()))}
    labels |= {"minExtent": 36} if channel == "y" else {"labelSeparation": 8}
    title = axis.title
    scale: Spec = {"zero": True}
    if axis.scale == "log":
        title += ", log scale"
        labels["tickCount"] = 10  # with fewer, a narrow axis has no tick beyond 1
        scale = {"type": "log", "nice": False, "padding": 12} | ({"base": 2} if whole else {})
    elif axis.scale == "accuracy":
        title += NOT_FROM_ZERO
        ends = _accuracies(data[[axis.field, *(figure.interval or ())]])
        scale = {"domain": ends, "nice": False, "zero": False}
    elif axis == figure.place:
        scale = {"zero": False, "nice": False, "padding": 12}
    return _number(axis.field) | {"title": title, "scale": scale, "axis": labels}


def _accuracies(values: pd.DataFrame) -> list[float]:
    """Return the ends of an axis of accuracies: those of all values, at least 0.05 apart."""
    low, high = values.min().min(), values.max().max()
    room = max(0.04 * (high - low), (_WIDTH_OF_ACCURACY - (high - low)) / 2)
    top = min(high + room, 1.0)
    return [round(min(low - room, top - _WIDTH_OF_ACCURACY), 4), round(top, 4)]


def _coloured(data: pd.DataFrame, colour: str, *channels: str) -> Spec:
    """Return the encodings by colour, which share one legend."""
    if not colour:
        neutral = {"value": theme.KIND_COLOURS["measured"]}
        return {name: neutral for name in channels if name in ("color", "fill")}
    values = _ordered(data[colour])
    looks: dict[str, Sequence[Any]] = {"shape": theme.SHAPES, "strokeDash": theme.DASHES}
    ranges: dict[str, Sequence[Any]] = {
        name: [look[i % len(look)] for i in range(len(values))] for name, look in looks.items()
    }
    names = any(isinstance(value, str) for value in values)
    legend = _broken(_lines_of(data[colour], _LEGEND_LETTERS)) if names else {}
    shared = _name(colour) | {
        "sort": values,
        "title": None if names else title_of_column(colour),
        "legend": {"symbolOpacity": 1} | legend,
    }
    colours = theme.colours(colour, values)
    return {
        name: shared | {"scale": {"domain": values, "range": ranges.get(name, colours)}}
        for name in channels
    }


def _dashes(data: pd.DataFrame) -> Spec:
    """Return the dashes of lines by role."""
    roles = [role for role in ROLES if (data["role"] == role).any()]
    scale = {"domain": roles, "range": [ROLES[role] for role in roles]}
    legend = {"symbolType": "stroke", "symbolSize": 600}
    return {"strokeDash": _name("role") | {"title": None, "scale": scale, "legend": legend}}


def _filled(data: pd.DataFrame, flagged: float, once: float) -> Spec:
    """Return how opaque points or bars are that have a caution, or that were launched once."""
    looks = [
        {"test": test, "value": opacity}
        for column, test, opacity in (
            ("flags", "datum.flags", flagged),
            ("repeats", "datum.repeats == 1", once),
        )
        if column in data
    ]
    return {"fillOpacity": {"condition": looks, "value": 1}} if looks else {}


def _tooltip(figure: Figure, data: pd.DataFrame) -> list[Spec]:
    """Return what pointing at a mark tells: filled columns for readers, and last the cell."""
    hidden = {*figure.each, *UNSEEN} - {"kind"}
    names = [str(name) for name in data if name not in hidden and "_of_all" not in str(name)]
    names += ["cell_id"] if "cell_id" in data else []
    return [
        (_number(name) | {"format": ",.5~r"} if _is_number(data[name]) else _name(name))
        | {"title": title_of_column(name)}
        for name in names
        if not data[name].isin([None, ""]).all()
    ]


# --- values ---


def _count(data: pd.DataFrame, column: str) -> int:
    return int(data[column].nunique()) if column else 0


def _panels(data: pd.DataFrame, facet: str) -> dict[Any, str]:
    """Return the heading of the panel of each value."""
    return {
        value: value if isinstance(value, str) else f"{title_of_column(facet)} {value:,}"
        for value in _ordered(data[facet])
    }


def _ordered(values: "pd.Series[Any]") -> list[Any]:
    """Return the distinct values: numbers sorted, names in the order of their first row."""
    found: list[Any] = values.unique().tolist()
    return found if any(isinstance(value, str) for value in found) else sorted(found)


def _lines_of(values: "pd.Series[Any]", letters: int = _NAME_LETTERS) -> dict[str, list[str]]:
    """Return each distinct value as text, broken into lines; names are never cut off.

    Words longer than a line, such as names of classes, are broken before their last capital.
    """
    last = r"(.*[a-z])(?=[A-Z])"
    lines = {}
    for name in map(str, _ordered(values)):
        parts = (re.sub(last, r"\1 ", one) if len(one) > letters else one for one in name.split())
        lines[name] = wrap(" ".join(parts), letters) or [""]
    return lines


def _longest(lines: dict[str, list[str]]) -> int:
    return max((len(line) for of in lines.values() for line in of), default=0)


def _broken(lines: dict[str, list[str]]) -> Spec:
    """Return the settings of an axis or a legend that shows names in lines."""
    return {"labelExpr": f"({json.dumps(lines)})[datum.value]", "labelLimit": 0}


def _values(figure: Figure, data: pd.DataFrame) -> list[Spec]:
    """Return the columns that marks and tooltips need, with floats of five digits."""
    needed = {figure.x.field, figure.y.field, figure.colour, "kind"}
    unused = [name for name in (*figure.each, "lacks") if name not in needed]
    floats = [str(name) for name in data.select_dtypes("float64").columns]
    rounded = {name: data[name].map(lambda value: float(f"{value:.5g}")) for name in floats}
    rows = data.assign(**rounded).drop(columns=unused, errors="ignore")
    values: list[Spec] = json.loads(rows.to_json(orient="records", double_precision=15))
    return values


def _number(field: str) -> Spec:
    return {"field": field, "type": "quantitative"}


def _name(field: str) -> Spec:
    return {"field": field, "type": "nominal"}


def _is_number(values: "pd.Series[Any]") -> bool:
    return pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)

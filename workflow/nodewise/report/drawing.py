"""Draw the rows of a chart as Vega-Lite, as its figure declares."""

import json
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
LETTER, TITLE_LETTER = 7.2, 9.6  # widths of a letter in pixels, as in charts.js
_GAP = 12  # pixels between panels, as in charts.js

Spec = dict[str, Any]
_NAME_LETTERS, _LEGEND_LETTERS = 24, 34  # most letters of a line of a name
_WIDTH_OF_ACCURACY = 0.05  # least width of an axis of accuracies
_ROLES = {"fitted": [1, 0], "predicted": [5, 4]}  # of lines, with their dashes
_IS_LINE = f"indexof({[*_ROLES]}, datum.role) >= 0"
_FORMATS = {"share": ".0%", "/s": "~s", "B": "~s", "FLOP": "~s", "FLOP/B": "~s"}
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
    layers = _Layers(figure, data, colour)
    plot: Spec = {
        "width": "container",
        "height": height if names or not panels else theme.PANEL,
        "layer": layers.bars() if figure.mark == "bar" else layers.lines(),
    }
    legend = _lines_of(data[colour], _LEGEND_LETTERS) if colour else {}
    about = {
        "figure": figure.name,
        "panels": len(panels),
        "least": 200 if names else 110,
        "left": int(_longest(names) * LETTER) + 15 if names else 90,
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
    about = spec["usermeta"]
    columns = max(1, int((width - about["left"]) / (LETTER * about["letters"] + 40)))
    config = spec["config"] | {"background": "white"}
    config["legend"] = config["legend"] | {"columns": columns}
    alone = spec | {"title": title, "config": config}
    if "spec" in spec:
        of_panel = int((width - about["left"]) / spec["columns"]) - _GAP
        return alone | {"spec": spec["spec"] | {"width": of_panel}}
    return alone | {"width": width, "autosize": {"type": "fit-x", "contains": "padding"}}


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
    """Return each distinct value as text, broken into lines; names are never cut off."""
    return {str(name): wrap(str(name), letters) or [""] for name in _ordered(values)}


def _longest(lines: dict[str, list[str]]) -> int:
    return max((len(line) for of in lines.values() for line in of), default=0)


def _values(figure: Figure, data: pd.DataFrame) -> list[Spec]:
    """Return the columns that marks and tooltips need, with floats of five digits."""
    needed = {figure.x.field, figure.y.field, figure.colour, "kind"}
    unused = [name for name in (*figure.each, "lacks") if name not in needed]
    floats = [str(name) for name in data.select_dtypes("float64").columns]
    rounded = {name: data[name].map(lambda value: float(f"{value:.5g}")) for name in floats}
    rows = data.assign(**rounded).drop(columns=unused, errors="ignore")
    values: list[Spec] = json.loads(rows.to_json(orient="records", double_precision=15))
    return values


class _Layers:
    """The layers of a chart.

    Args:
        figure: the figure.
        data: the rows of the chart, with titles.
        colour: the column of the colours; empty for none.
    """

    def __init__(self, figure: Figure, data: pd.DataFrame, colour: str) -> None:
        self.figure, self.data, self.colour = figure, data, colour
        self.roles = "role" in data
        self.along, self.across = ("x", "y") if figure.y.scale == "names" else ("y", "x")
        self.places = {"x": self._axis(figure.x, "x"), "y": self._axis(figure.y, "y")}

    def lines(self) -> list[Spec]:
        """Return the layers of a figure of lines or points, the points uppermost."""
        of_lines, of_points = ([_IS_LINE], [f"!({_IS_LINE})"]) if self.roles else ([], [])
        points = ~self.data["role"].isin(_ROLES) if self.roles else pd.Series(True, self.data.index)
        coloured, told = self._coloured("color"), {"tooltip": self._tooltip()}
        layers = self._guide()
        if self.roles:
            area = {"type": "area", "opacity": 0.13}
            layers += self._interval(area, ~points, of_lines, coloured | self._apart())
        if self.roles or self.figure.mark == "line":
            line = {"type": "line", "strokeWidth": 1.8, "opacity": 0.8}
            layers += self._layer(line, of_lines, coloured | self._dashes() | self._apart() | told)
        elif self.along == "x":
            ends = {"x": _number(self.figure.x.field) | {"aggregate": "min"}}
            ends["x2"] = {"field": self.figure.x.field, "aggregate": "max"}
            layers += self._layer({"type": "rule", "opacity": 0.5}, [], ends)
        rule = {"type": "rule", "strokeWidth": 2}
        layers += self._interval(rule, points, of_points, coloured)
        point = {"type": "point", "size": 60, "strokeWidth": 2, "opacity": 1}
        look = self._coloured("color", "fill", "shape") | self._filled()
        return layers + (self._layer(point, of_points, look | told) if points.any() else [])

    def bars(self) -> list[Spec]:
        """Return stacked bars, their intervals, and “!” beyond the end of flagged ones."""
        order = _ordered(self.data[self.colour])
        rank = {"calculate": f"indexof({json.dumps(order)}, datum.{self.colour})", "as": "rank"}
        stacked = {
            self.along: self.places[self.along] | {"stack": "zero"},
            "order": _number("rank"),
        }
        look = self._coloured("color") | {"tooltip": self._tooltip()}
        layers = self._layer({"type": "bar"}, [rank], stacked | look)
        one = f"datum.{self.colour} == {json.dumps(order[0])}"  # each bar has one interval
        line = {"type": "rule", "style": "interval", "strokeWidth": 1.5}
        every = pd.Series(True, self.data.index)
        layers += [of | {"name": "intervals"} for of in self._interval(line, every, [one], {})]
        if self.figure.interval and "flags" in self.data and self.data["flags"].any():
            end = f"max(datum.{self.figure.interval[1]}, datum.whole)"
            text = {"type": "text", "text": "!", "fontSize": 13, "fontWeight": "bold"}
            text |= {"align": "left", "dx": 4} if self.along == "x" else {"dy": -8}
            steps: list[str | Spec] = [one, "datum.flags", {"calculate": end, "as": "end"}]
            layers += self._layer(text, steps, {self.along: _number("end")})
        return layers

    def _layer(self, mark: Spec, steps: Sequence[str | Spec], encoding: Spec) -> list[Spec]:
        """Return a layer at the places of the rows; of `steps`, texts are filters."""
        transform = [{"filter": step} if isinstance(step, str) else step for step in steps]
        return [{"mark": mark, "transform": transform, "encoding": self.places | encoding}]

    def _interval(
        self, mark: Spec, rows: "pd.Series[bool]", steps: Sequence[str], encoding: Spec
    ) -> list[Spec]:
        """Return a layer of the intervals of some rows, if they have any."""
        low, high = self.figure.interval or ("", "")
        if not low or self.data.loc[rows, low].isna().all():
            return []
        ends = {self.along: _number(low), f"{self.along}2": {"field": high}}
        return self._layer(mark, [*steps, f"isValid(datum.{low})"], ends | encoding)

    def _axis(self, axis: Axis, channel: str) -> Spec:
        """Return the encoding of an axis."""
        values = self.data[axis.field]
        if axis.scale == "names":
            return self._names(axis, values)
        whole = pd.api.types.is_integer_dtype(values)
        labels: Spec = {"format": axis.format or _FORMATS.get(axis.unit, "~g"), "tickCount": 5}
        if whole:
            labels |= {"format": axis.format or ",d", "tickMinStep": 1, "tickCount": 10}
        labels |= {"minExtent": 36} if channel == "y" else {"labelSeparation": 8}
        title = axis.title
        scale: Spec = {"zero": True}
        if axis.scale == "log":
            title += ", log scale"
            scale = {"type": "log", "nice": False, "padding": 12} | ({"base": 2} if whole else {})
        elif axis.scale == "accuracy":
            title += NOT_FROM_ZERO
            scale = {"domain": self._accuracies(values), "nice": False, "zero": False}
        elif channel == self.across:
            scale = {"zero": False, "nice": False, "padding": 12}
        return _number(axis.field) | {"title": title, "scale": scale, "axis": labels}

    def _names(self, axis: Axis, values: "pd.Series[Any]") -> Spec:
        """Return the encoding of an axis of names, which are broken into lines."""
        labels = _broken(_lines_of(values)) | {"labelLineHeight": 13, "ticks": False}
        shown = {"title": axis.title or None, "sort": _ordered(values), "axis": labels}
        return _name(axis.field) | shown

    def _accuracies(self, values: "pd.Series[Any]") -> list[float]:
        """Return the ends of an axis of accuracies: those of all values, at least 0.05 apart."""
        every = pd.concat([values, *(self.data[end] for end in self.figure.interval or ())])
        low, high = float(every.min()), float(every.max())
        room = max(0.04 * (high - low), (_WIDTH_OF_ACCURACY - (high - low)) / 2)
        top = min(high + room, 1.0)
        return [round(min(low - room, top - _WIDTH_OF_ACCURACY), 4), round(top, 4)]

    def _coloured(self, *channels: str) -> Spec:
        """Return the encodings by colour, which share one legend."""
        if not self.colour:
            neutral = {"value": theme.KIND_COLOURS["measured"]}
            return {name: neutral for name in channels if name in ("color", "fill")}
        values = _ordered(self.data[self.colour])
        looks: dict[str, Sequence[Any]] = {"shape": theme.SHAPES, "strokeDash": theme.DASHES}
        ranges: dict[str, Sequence[Any]] = {
            name: [look[i % len(look)] for i in range(len(values))] for name, look in looks.items()
        }
        names = any(isinstance(value, str) for value in values)
        lines = _lines_of(self.data[self.colour], _LEGEND_LETTERS)
        shared = _name(self.colour) | {
            "sort": values,
            "title": None if names else title_of_column(self.colour),
            "legend": {"symbolOpacity": 1} | (_broken(lines) if names else {}),
        }
        colours = theme.colours(self.colour, values)
        return {
            name: shared | {"scale": {"domain": values, "range": ranges.get(name, colours)}}
            for name in channels
        }

    def _dashes(self) -> Spec:
        """Return the dashes of lines: by role if there are roles, else by colour."""
        if not self.roles:
            return self._coloured("strokeDash")
        roles = [role for role in _ROLES if (self.data["role"] == role).any()]
        scale = {"domain": roles, "range": [_ROLES[role] for role in roles]}
        legend = {"symbolType": "stroke", "symbolSize": 600}
        return {"strokeDash": _name("role") | {"title": None, "scale": scale, "legend": legend}}

    def _apart(self) -> Spec:
        """Return the columns whose values have lines of their own, whatever their colour."""
        apart = [name for name in _APART if name in self.data and self.data[name].nunique() > 1]
        return {"detail": [_name(name) for name in apart]} if apart else {}

    def _filled(self) -> Spec:
        """Return the fill of points: none with a caution, pale if launched once."""
        tests = {"flags": ("datum.flags", 0), "repeats": ("datum.repeats == 1", 0.3)}
        looks = [
            {"test": test, "value": value}
            for column, (test, value) in tests.items()
            if column in self.data
        ]
        return {"fillOpacity": {"condition": looks, "value": 1}} if looks else {}

    def _guide(self) -> list[Spec]:
        """Return the dashed line, if the figure has one."""
        look = {"strokeDash": [3, 4], "strokeWidth": 1.5, "color": theme.NEUTRAL}
        values: list[Spec] = [{}]
        if self.figure.guide == "one":
            mark: Spec = {"type": "rule"}
            encoding: Spec = {self.along: {"datum": 1, "type": "quantitative"}}
        elif self.figure.guide == "diagonal":
            x, y = self.figure.x.field, self.figure.y.field
            mark, encoding = {"type": "line"}, self.places
            values = [{x: end, y: end} for end in self.data[x].agg(["min", "max"]).tolist()]
        else:
            return []
        return [{"data": {"values": values}, "mark": mark | look, "encoding": encoding}]

    def _tooltip(self) -> list[Spec]:
        """Return what pointing at a mark tells: all columns that are not empty, the cell last."""
        hidden = {*self.figure.each, "lacks", "cell_id", "whole"} - {"kind"}
        names = [str(name) for name in self.data if name not in hidden]
        names += ["cell_id"] if "cell_id" in self.data else []
        told = [name for name in names if not self.data[name].isin([None, ""]).all()]
        return [
            (_number(name) | {"format": ",.4~g"} if _is_number(self.data[name]) else _name(name))
            | {"title": title_of_column(name)}
            for name in told
        ]


def _number(field: str) -> Spec:
    return {"field": field, "type": "quantitative"}


def _name(field: str) -> Spec:
    return {"field": field, "type": "nominal"}


def _broken(lines: dict[str, list[str]]) -> Spec:
    """Return the settings of an axis or a legend that shows names in lines."""
    return {"labelExpr": f"({json.dumps(lines)})[datum.value]", "labelLimit": 0}


def _is_number(values: "pd.Series[Any]") -> bool:
    return pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)

"""Draw the charts of a figure as Vega-Lite, and give their files and words to pages."""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from textwrap import wrap
from typing import Any
from urllib.parse import urlencode

import pandas as pd
import vl_convert

from nodewise.core.units import KINDS, base_kind
from nodewise.report import chart_words, theme
from nodewise.report.figure import Axis, Figure
from nodewise.report.html import script_json
from nodewise.report.tables import Table, Words, data_table
from nodewise.results.columns import title_of_column

VEGA_LITE = "6.4"
MOST_LINES = 6
"""Most lines of a plot."""
NOT_FROM_ZERO = ", not from 0"
"""Ending of the title of a value axis that is linear and does not begin at 0."""

Spec = dict[str, Any]
# filters of the page that lists the cells: name -> the axis that has its value
_CELLS = {
    **{axis: axis for axis in ("experiment", "model", "strategy")},
    "batch": "batch_per_worker",
}
_OURS = {"measured", "emulated", "emulated soft"}  # the kinds of numbers that come from our cells
_SHOWN = 3  # charts of a section, so that readers on a phone can scroll past it
_TITLE_LETTER, _LETTER = 9.6, 7.2  # widths of a letter in pixels, as in charts.js
_LEFT, _GAP, _PANEL = 74, 12, 200  # pixels: of axis labels, between panels, least width of a panel
_NAME_LETTERS = 24  # most letters of a line of a name beside an axis
_TICKS = 12  # most ticks on an axis of whole numbers
_WIDTH_OF_ACCURACY = 0.05  # least width of an axis of accuracies
_ROLE_DASHES = {"fitted": [1, 0], "predicted": [5, 4]}
_LINES = [*_ROLE_DASHES]  # roles
_APART = ["kind", "experiment", "cluster", "machine", "line", "strategy", "role"]
_FORMATS = {"share": ".0%", "/s": "~s", "B": "~s", "FLOP": "~s", "FLOP/B": "~s"}


@dataclass(frozen=True)
class Chart:
    """One chart of a figure.

    Attributes:
        declared: the figure.
        of: the values of the columns that selected its rows, name -> value. An empty value is left
            out: the chart compares several.
        data: its rows, with names of models, strategies and the like.
        titled: the same rows with titles instead of names.
        where: titles of what all its rows have in common, for the subtitle.
    """

    declared: Figure
    of: Mapping[str, str]
    data: pd.DataFrame
    titled: pd.DataFrame
    where: Sequence[str]

    @property
    def figure(self) -> str:
        """The name of the figure, such as `time`."""
        return self.declared.name

    @property
    def name(self) -> str:
        """The name of the chart's files, without their endings."""
        of = [self.of["curve"]] if "curve" in self.of else [*self.of.values()]
        return re.sub(r"[^a-z0-9_]+", "-", "-".join([*of, self.figure]).lower())

    @property
    def kinds(self) -> list[str]:
        """The kinds of its numbers, in the order of `KINDS`."""
        order = list(KINDS)
        kinds = self.data["kind"].unique()
        return sorted(kinds, key=lambda label: (order.index(base_kind(label)), label))

    @cached_property
    def finding(self) -> str:
        """The sentence in its title that says what it shows; empty if too little is known."""
        return chart_words.finding(self.declared, self.titled)

    @cached_property
    def alt(self) -> str:
        """A description of the picture in words."""
        return chart_words.describe(self.declared, self.titled)

    @property
    def caption(self) -> str:
        """How to read the chart: its own words, and the looks of its points."""
        return " ".join(filter(None, [self.declared.caption, *_looks(self.declared, self.titled)]))

    def shows(self, column: str, value: str) -> bool:
        """Return whether its rows have this value of a column of `each`, or compare several."""
        compares = column in self.declared.each and column not in self.of
        return compares or self.of.get(column) == value

    @property
    def cells(self) -> str:
        """The URL query that makes the list of cells show the cells of this chart.

        Empty if its numbers do not come from our own cells, or its data are not all of one model.
        """
        of = {name: self.of[axis] for name, axis in _CELLS.items() if axis in self.of}
        return urlencode(of) if "model" in of and _OURS & {*map(base_kind, self.kinds)} else ""

    @cached_property
    def spec(self) -> Spec:
        """Its Vega-Lite specification, with its data inline."""
        return draw(self)

    @property
    def json(self) -> str:
        """The specification as JSON text."""
        spec = json.dumps(self.spec, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return f"{spec}\n"

    @property
    def script(self) -> str:
        """A script that gives the page the specification, without what the page already has."""
        spec = {key: self.spec[key] for key in self.spec if key not in ("config", "description")}
        return f"(window.nodewiseCharts ??= {{}})[{script_json(self.name)}]={script_json(spec)};\n"

    @cached_property
    def svg(self) -> str:
        """A picture of it, `theme.WIDTH` pixels wide on a white background."""
        return _picture(self.spec)

    @property
    def width(self) -> int:
        """The width of the picture in pixels."""
        return self._size[0]

    @property
    def height(self) -> int:
        """The height of the picture in pixels."""
        return self._size[1]

    @cached_property
    def _size(self) -> tuple[int, int]:
        size = re.search(r'<svg [^>]*?width="(\d+)[\d.]*" height="(\d+)', self.svg)
        return (int(size[1]), int(size[2])) if size else (theme.WIDTH, theme.HEIGHT)

    @property
    def csv(self) -> str:
        """Its data as CSV."""
        return self.data.to_csv(index=False, lineterminator="\n")

    def table(self, words: Words) -> Table:
        """Return its data as a table, with titles for the names in the columns of `words`.

        Cell ids, empty columns and columns of text with the same value in all rows are left out:
        the chart's words already state the shared values.
        """
        hidden = ["cell_id", "lacks", *self.of]
        shown = self.data.drop(columns=hidden, errors="ignore").dropna(axis=1, how="all")
        texts = shown.select_dtypes(exclude="number")
        same = [name for name in texts if len(shown) > 1 and texts[name].nunique(dropna=False) == 1]
        return data_table(shown.drop(columns=same), words)

    def files(self) -> dict[str, str]:
        """Return its files, by name: specification, data, picture, and script for pages."""
        endings = {"vl.json": self.json, "csv": self.csv, "svg": self.svg, "js": self.script}
        return {f"{self.name}.{ending}": text for ending, text in endings.items()}


def charts_of(
    declared: Figure,
    rows: pd.DataFrame,
    with_titles: Callable[[pd.DataFrame], pd.DataFrame],
) -> Iterator[Chart]:
    """Yield the charts of a figure, one for each combination of the values of `each`.

    Args:
        declared: the figure.
        rows: what its `rows` returned.
        with_titles: replaces names in rows by titles.
    """
    if rows.empty:
        return
    groups = rows.groupby([*declared.each], sort=True) if declared.each else [((), rows)]
    for key, part in groups:
        of = {name: str(value) for name, value in zip(declared.each, key, strict=True) if value}
        data = part.reset_index(drop=True)
        titled = with_titles(data)
        shared = [name for name in ("experiment", "line", "strategy") if name in of]
        yield Chart(declared, of, data, titled, [str(titled[name].iloc[0]) for name in shared])


def part_charts(charts: Sequence[Chart]) -> tuple[list[Chart], list[Chart]]:
    """Split the charts of a section into those to show, at most three, and those to fold away.

    Charts that state a finding come first.
    """
    first = ([one for one in charts if one.finding] or [*charts])[:_SHOWN]
    return first, [one for one in charts if one not in first]


def shared_files() -> dict[str, str]:
    """Return the scripts that all charts need: Vega, and the light and dark settings."""
    themes = {name: theme.vega_config(dark=name == "dark") for name in ("light", "dark")}
    settings = json.dumps(themes, ensure_ascii=False)
    return {"vega.js": _bundle(), "themes.js": f"window.nodewiseThemes = {settings};\n"}


@cache  # building it takes longer than drawing all charts of a small study
def _bundle() -> str:
    """Return Vega, Vega-Lite and vega-embed as one script.

    Its only global name is `vegaEmbed`.
    """
    script = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=VEGA_LITE)
    return f"(() => {{{script}\n}})();\n"


def _picture(spec: Spec) -> str:
    """Render a specification as SVG, with a fixed size on a white background."""
    title = {
        "text": wrap(spec["title"]["text"], int(theme.WIDTH / _TITLE_LETTER)),
        "subtitle": wrap(spec["title"]["subtitle"], int(theme.WIDTH / _LETTER)),
    }
    about = spec["usermeta"]
    # pages describe the picture in words, so descriptions of single marks (ARIA) are not needed
    config = spec["config"] | {"background": "white", "aria": False}
    columns = max(1, int(theme.WIDTH / (_LETTER * about["letters"] + 40)))
    config["legend"] = config["legend"] | {"columns": columns}
    alone = spec | {"background": "white", "title": title, "config": config}
    if about["panels"]:
        alone["spec"] = spec["spec"] | {"width": _panel_width(theme.WIDTH, spec["columns"])}
    else:
        alone["width"] = theme.WIDTH
    svg: str = vl_convert.vegalite_to_svg(json.dumps(alone), vl_version=VEGA_LITE)
    return svg


def _panel_width(width: float, columns: int) -> int:
    """Return the width of a panel; charts.js computes it in the same way."""
    return int((width - _LEFT) / columns) - _GAP


# --- the specification ---


def draw(chart: Chart) -> Spec:
    """Return the Vega-Lite specification of a chart.

    It is as wide as its container. Small multiples have a width of their own instead, which pages
    set, as they set the columns; `usermeta` says what they need to know for this: the number of
    `panels`, and the most `letters` of a text in a legend.
    """
    figure, data = chart.declared, chart.titled
    colour, facet = figure.colour, figure.facet
    if not facet and figure.mark != "bar" and _count(data, colour) > MOST_LINES:
        colour, facet = "", colour
    if facet and _count(data, facet) < 2:
        facet = ""
    look = _Look(figure, data, colour)
    marks = look.bars() if figure.mark == "bar" else look.lines_and_points()
    names = _count(data, figure.y.field) if figure.y.scale == "names" else 0
    height = 26 * names + 10 if names else theme.HEIGHT if not facet else 170
    plotted = [*([figure.plots] if chart.finding else []), *chart.kinds, *chart.where]
    panels = _panels(data, facet)
    return {
        "$schema": f"https://vega.github.io/schema/vega-lite/v{VEGA_LITE}.json",
        "config": theme.vega_config(dark=False),
        "description": chart.alt,
        "title": {"text": chart.finding or figure.plots, "subtitle": " · ".join(plotted)},
        "usermeta": {
            "figure": figure.name,
            "panels": len(panels),
            "letters": max((len(str(value)) for value in data[colour]), default=0) if colour else 0,
        },
        "data": {"values": _records(_drawn(data, figure, facet))},
        **(
            {
                "facet": {"field": "panel", "type": "nominal", "sort": panels, "title": None},
                "columns": min(len(panels), 2 if names else 3),
                "spacing": {"row": 20, "column": _GAP},
                "spec": {"height": height, "width": _PANEL, "layer": marks},
                **({"resolve": {"scale": {"x": "independent"}}} if figure.free else {}),
            }
            if panels
            else {"height": height, "width": "container", "layer": marks}
        ),
    }


def _count(data: pd.DataFrame, column: str) -> int:
    return int(data[column].nunique()) if column else 0


def _panels(data: pd.DataFrame, facet: str) -> list[str]:
    """Return the headings of the panels, in the order of numbers, or of the rows for names."""
    return [_heading(facet, value) for value in _ordered(data[facet])] if facet else []


def _heading(facet: str, value: object) -> str:
    return str(value) if isinstance(value, str) else f"{title_of_column(facet)} {value:,}"


def _ordered(values: "pd.Series[Any]") -> list[Any]:
    """Return the distinct values: numbers sorted, names in the order of their first row."""
    found = [value.item() if hasattr(value, "item") else value for value in values.unique()]
    return found if any(isinstance(value, str) for value in found) else sorted(found)


def _drawn(data: pd.DataFrame, figure: Figure, facet: str) -> pd.DataFrame:
    """Return the columns that marks and tooltips need, with floats of five digits."""
    needed = {figure.x.field, figure.y.field, figure.colour}
    unused = [name for name in (*figure.each, "lacks") if name not in needed]
    if facet:
        data = data.assign(panel=[_heading(facet, value) for value in data[facet]])
    data = data.drop(columns=unused, errors="ignore")
    floats = [str(name) for name in data.select_dtypes("float64").columns]
    return data.assign(
        **{name: data[name].map(lambda value: float(f"{value:.5g}")) for name in floats}
    )


def _records(data: pd.DataFrame) -> list[Spec]:
    """Return the rows of `data` as values that JSON can represent."""
    rows = data.astype(object).to_numpy().tolist()
    return [dict(zip(data.columns, map(_or_null, row), strict=True)) for row in rows]


def _or_null(value: object) -> object:
    """Return `value`, or None if it is missing or not finite."""
    if value is pd.NA or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value


def _looks(figure: Figure, data: pd.DataFrame) -> list[str]:
    """Return sentences that explain intervals and the looks of points."""
    said = []
    bars = figure.mark == "bar"
    role = data.get("role", pd.Series("", data.index))
    if figure.interval and data.loc[~role.isin(_LINES), figure.interval[0]].notna().any():
        said.append(f"{'Thin lines' if bars else 'Bars'}: {figure.interval_is}.")
    if figure.interval and data.loc[role.isin(_LINES), figure.interval[0]].notna().any():
        said.append(f"Shaded: {figure.interval_is}.")
    if _any(data, "flags", lambda flags: flags.fillna("") != ""):
        said.append(f"{'A bar with “!” calls' if bars else 'Hollow points call'} for caution.")
    if _any(data, "repeats", lambda repeats: repeats.fillna(0) == 1):
        said.append(f"{'Bars without a line' if bars else 'Pale points'} were launched once.")
    return said


def _any(
    data: pd.DataFrame, column: str, test: Callable[["pd.Series[Any]"], "pd.Series[bool]"]
) -> bool:
    return column in data and bool(test(data[column]).any())


class _Look:
    """The layers of a chart.

    Args:
        figure: the figure.
        data: the rows of the chart, with titles.
        colour: the column of the colours; empty for none.
    """

    def __init__(self, figure: Figure, data: pd.DataFrame, colour: str) -> None:
        self.figure, self.data, self.colour = figure, data, colour
        self.horizontal = figure.y.scale == "names"
        self.roles = "role" in data
        self.along, self.across = ("x", "y") if self.horizontal else ("y", "x")

    def lines_and_points(self) -> list[Spec]:
        """Return the layers of a figure of lines or points."""
        figure = self.figure
        places = {"x": self._channel("x"), "y": self._channel("y")}
        is_line = "indexof(['fitted', 'predicted'], datum.role) >= 0"
        of_lines = [{"filter": is_line}] if self.roles else []
        of_points = [{"filter": f"!({is_line})"}] if self.roles else []
        layers = self._guide()
        if self.roles and figure.interval:
            area = places | self._between() | self._coloured("color") | self._apart()
            layers.append(
                {
                    "mark": {"type": "area", "opacity": 0.13},
                    "transform": [*of_lines, {"filter": f"isValid(datum.{figure.interval[0]})"}],
                    "encoding": area,
                }
            )
        if self.roles or figure.mark == "line":
            line = places | self._coloured("color") | self._dashes() | self._apart()
            layers.append(
                {
                    "mark": {"type": "line", "strokeWidth": 1.8, "opacity": 0.8},
                    "transform": of_lines,
                    "encoding": line | ({"tooltip": self._tooltip()} if self.roles else {}),
                }
            )
        elif self.horizontal:
            ends = [
                {self.along: {"aggregate": end, "field": figure.x.field, "type": "quantitative"}}
                for end in ("min", "max")
            ]
            whole = ends[0] | {f"{self.along}2": ends[1][self.along] | {}} | {"y": places["y"]}
            del whole[f"{self.along}2"]["type"]
            layers.append({"mark": {"type": "rule", "opacity": 0.5}, "encoding": whole})
        if figure.interval and self._points_have(figure.interval[0]):
            layers.append(
                {
                    "mark": {"type": "rule", "strokeWidth": 2},
                    "transform": [*of_points, {"filter": f"isValid(datum.{figure.interval[0]})"}],
                    "encoding": places | self._between() | self._coloured("color"),
                }
            )
        layers.append(
            {
                "mark": {"type": "point", "size": 60, "strokeWidth": 2, "opacity": 1},
                "transform": of_points,
                "encoding": places
                | self._coloured("color", "fill", "shape")
                | self._filled()
                | {"tooltip": self._tooltip()},
            }
        )
        return layers

    def _points_have(self, column: str) -> bool:
        """Return whether any point has a value: Vega warns of layers without data."""
        data = self.data
        points = data[~data["role"].isin(_LINES)] if self.roles else data
        return bool(points[column].notna().any())

    def bars(self) -> list[Spec]:
        """Return stacked bars, their intervals, and “!” beyond the end of flagged ones."""
        figure, data = self.figure, self.data
        value = self._channel(self.along)
        names = {self.across: self._channel(self.across)}
        rank = f"indexof({json.dumps(_ordered(data[self.colour]))}, datum.{self.colour})"
        layers: list[Spec] = [
            {
                "mark": "bar",
                "transform": [{"calculate": rank, "as": "rank"}],
                "encoding": names
                | {self.along: value | {"stack": "zero"}}
                | self._coloured("color")
                | {"order": {"field": "rank", "type": "quantitative"}, "tooltip": self._tooltip()},
            }
        ]
        first = {"filter": f"{rank} == 0"}  # each bar has one interval and one caution
        if figure.interval:
            layers.append(
                {
                    "mark": {"type": "rule", "style": "interval", "strokeWidth": 1.5},
                    "transform": [first, {"filter": f"isValid(datum.{figure.interval[0]})"}],
                    "encoding": names | self._between(),
                }
            )
        if "flags" in data and figure.interval:
            whole = {"calculate": f"max(datum.{figure.interval[1]}, datum.whole)", "as": "end"}
            marked: Spec = {"type": "text", "text": "!", "fontSize": 13, "fontWeight": "bold"}
            beyond: Spec = {"align": "left", "dx": 4} if self.horizontal else {"dy": -8}
            layers.append(
                {
                    "mark": marked | beyond,
                    "transform": [first, {"filter": "datum.flags"}, whole],
                    "encoding": names | {self.along: {"field": "end", "type": "quantitative"}},
                }
            )
        return layers

    def _channel(self, channel: str) -> Spec:
        """Return the encoding of an axis."""
        axis = self.figure.x if channel == "x" else self.figure.y
        values = self.data[axis.field]
        if axis.scale == "names":
            return self._names(axis, values)
        encoded: Spec = {"field": axis.field, "type": "quantitative", "title": axis.title}
        labels: Spec = {"format": axis.format or _FORMATS.get(axis.unit, "~g")}
        scale: Spec = {}
        whole = pd.api.types.is_integer_dtype(values)
        if axis.scale == "log":
            encoded["title"] += ", log scale"
            scale = {"type": "log", "nice": False, "padding": 12} | ({"base": 2} if whole else {})
            labels |= {"values": _doubled(values)} if whole else {"tickCount": 5}
        elif axis.scale == "accuracy":
            encoded["title"] += NOT_FROM_ZERO
            scale = {"domain": self._accuracies(values), "nice": False, "zero": False}
        elif channel == self.across:
            scale = {"zero": False, "nice": False, "padding": 12}
            labels |= {"values": whole_ticks(values)} if whole else {}
        else:
            scale = {"zero": True}
        if whole:
            labels["format"] = axis.format or ",d"
        if channel == "y":
            labels |= {"minExtent": 36, "tickCount": 5}
        elif not whole:
            labels |= {"labelSeparation": 8, "tickCount": 5}
        return encoded | {"scale": scale, "axis": labels}

    def _names(self, axis: Axis, values: "pd.Series[Any]") -> Spec:
        """Return the encoding of an axis of names, which are broken into lines."""
        names = _ordered(values)
        lines = {
            name: wrap(name, _NAME_LETTERS, break_long_words=False)
            for name in names
            if isinstance(name, str)
        }
        expression = f"({json.dumps(lines)})[datum.value] || datum.label"
        labels = {"labelExpr": expression, "labelLimit": 0, "ticks": False, "labelAngle": 0}
        return {
            "field": axis.field,
            "type": "nominal",
            "title": axis.title or None,
            "sort": names,
            "axis": labels | {"labelLineHeight": 13},
        }

    def _accuracies(self, values: "pd.Series[Any]") -> list[float]:
        """Return the ends of an axis of accuracies: those of all values, at least 0.05 apart."""
        ends = self.data[[*(self.figure.interval or ())]]
        every = pd.concat([values, *(ends[name] for name in ends)])
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
        names = any(isinstance(value, str) for value in values)
        colours = theme.colours(self.colour, values)
        looks: dict[str, Sequence[Any]] = {"shape": theme.SHAPES, "strokeDash": theme.DASHES}
        ranges = {
            name: [look[i % len(look)] for i in range(len(values))] for name, look in looks.items()
        }
        return {
            channel: {
                "field": self.colour,
                "type": "nominal",
                "sort": values,
                "title": None if names else title_of_column(self.colour),
                "scale": {"domain": values, "range": ranges.get(channel, colours)},
                "legend": {"symbolOpacity": 1, "labelLimit": 0},
            }
            for channel in channels
        }

    def _dashes(self) -> Spec:
        """Return the dashes of lines: by role if there are roles, else by colour."""
        if not self.roles:
            return self._coloured("strokeDash")
        by_role: Spec = {"field": "role", "type": "nominal", "title": None}
        roles = [role for role in _LINES if (self.data["role"] == role).any()]
        by_role["scale"] = {"domain": roles, "range": [_ROLE_DASHES[role] for role in roles]}
        return {"strokeDash": by_role | {"legend": {"symbolType": "stroke", "symbolSize": 600}}}

    def _apart(self) -> Spec:
        """Return the columns whose values have lines of their own, whatever their colour."""
        apart = [name for name in _APART if name in self.data and self.data[name].nunique() > 1]
        return {"detail": [{"field": name, "type": "nominal"} for name in apart]} if apart else {}

    def _between(self) -> Spec:
        """Return the encoding of the interval."""
        low, high = self.figure.interval or ("", "")
        return {
            self.along: {"field": low, "type": "quantitative"},
            f"{self.along}2": {"field": high},
        }

    def _filled(self) -> Spec:
        """Return the fill of points: none with a caution, pale if launched once."""
        looks = [
            {"test": test, "value": value}
            for column, test, value in (
                ("flags", "datum.flags", 0),
                ("repeats", "datum.repeats == 1", 0.3),
            )
            if column in self.data
        ]
        return {"fillOpacity": {"condition": looks, "value": 1}} if looks else {}

    def _guide(self) -> list[Spec]:
        """Return the dashed line, if the figure has one."""
        figure = self.figure
        mark = {"strokeDash": [3, 4], "strokeWidth": 1.5, "color": theme.NEUTRAL}
        if figure.guide == "one":
            rule = {"type": "rule"} | mark
            encoding = {self.along: {"datum": 1, "type": "quantitative"}}
            return [{"data": {"values": [{}]}, "mark": rule, "encoding": encoding}]
        if figure.guide == "diagonal":
            x, y = figure.x.field, figure.y.field
            ends = [float(self.data[x].min()), float(self.data[x].max())]
            values = [{x: end, y: end} for end in ends]
            encoding = {"x": self._channel("x"), "y": self._channel("y")}
            return [
                {"data": {"values": values}, "mark": {"type": "line"} | mark}
                | {"encoding": encoding}
            ]
        return []

    def _tooltip(self) -> list[Spec]:
        """Return what pointing at a mark tells: all columns that are not empty."""
        hidden = {*self.figure.each, "lacks", "cell_id", "whole"}
        names = [str(name) for name in self.data if name not in hidden]
        names += ["cell_id"] if "cell_id" in self.data else []
        return [
            {"field": name, "title": title_of_column(name), "type": "nominal"}
            | ({"type": "quantitative", "format": ",.4~g"} if _is_number(self.data[name]) else {})
            for name in names
            if (self.data[name].notna() & ~self.data[name].isin([""])).any()
        ]


def _is_number(values: "pd.Series[Any]") -> bool:
    return pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)


def whole_ticks(values: "pd.Series[Any]") -> list[int]:
    """Return at most `_TICKS` evenly spaced whole numbers that span `values`.

    By default, Vega places ticks between whole numbers on a short axis and rounds their labels.
    """
    low, high = int(values.min()), int(values.max())
    step = -(-(high - low + 1) // _TICKS)
    return [*range(low if step == 1 else -(-low // step) * step, high + 1, step)]


def _doubled(values: "pd.Series[Any]") -> list[int]:
    """Return the powers of two from the least to the largest of `values`."""
    low, high = int(values.min()), int(values.max())
    return [2**power for power in range(64) if low <= 2**power <= high] or [low]

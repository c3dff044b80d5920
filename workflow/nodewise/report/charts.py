"""Make the charts of a figure, and give their files and words to pages."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from string import Formatter
from typing import Any
from urllib.parse import urlencode

import pandas as pd
import vl_convert

from nodewise.core.units import KINDS, base_kind, write_number
from nodewise.report import theme
from nodewise.report.drawing import ROLES, UNSEEN, VEGA_LITE, at_width, draw
from nodewise.report.figure import Figure
from nodewise.report.html import script_json
from nodewise.report.tables import Column, Table, table
from nodewise.results.columns import title_of_column

# filters of the page that lists the cells: name -> the column that has its value
_CELLS = {
    **{column: column for column in ("experiment", "model", "strategy")},
    "batch": "batch_per_worker",
}
_OURS = {"measured", "emulated", "emulated soft"}  # the kinds of numbers that come from our cells
# parts of a picture that say nothing: pages load pictures by <img>, whose description is its `alt`
_UNUSED = [
    r' (?:aria-[a-z]+|role|pointer-events)="[^"]*"',
    r'<path class="(?:back|fore)ground"(?: d="(?:M0,0h0v0h0Z)?")?(?: display="none")?/>',
    r"(?<=\.\d\d)\d+(?=[^<>]*>)",  # digits of places
]
_UNSEEN = {*UNSEEN, "experiment", "machine"}  # columns that a chart needs, but not its table
_UNNAMED = {"curve", "dataset", "kind", "source"}  # what differs only if the names do not suffice


@dataclass(frozen=True)
class Chart:
    """One chart of a figure.

    Attributes:
        declared: the figure.
        name: the name of the chart's files, without their endings.
        of: the values of the columns that selected its rows, name -> value. An empty value is left
            out: the chart compares several.
        data: its rows, with names of models, strategies and the like.
        titled: the same rows with titles instead of names.
    """

    declared: Figure
    name: str
    of: Mapping[str, str]
    data: pd.DataFrame
    titled: pd.DataFrame

    @property
    def figure(self) -> str:
        """The name of the figure, such as `time`."""
        return self.declared.name

    @property
    def kinds(self) -> list[str]:
        """The kinds of its numbers, in the order of `KINDS`."""
        order = list(KINDS)
        kinds = self.data["kind"].unique()
        return sorted(kinds, key=lambda label: (order.index(base_kind(label)), label))

    @cached_property
    def finding(self) -> str:
        """The sentence in its title that says what it shows; empty if too little is known."""
        return _finding(self.declared, self.titled)

    @property
    def alt(self) -> str:
        """A description of the picture in words; its numbers are in its table."""
        return ". ".join(filter(None, [self.declared.plots, self.finding])) + "."

    @property
    def caption(self) -> str:
        """How to read the chart: its own words, and what intervals and looks of points mean."""
        return " ".join(filter(None, [self.declared.caption, *self._looks()]))

    def _looks(self) -> Iterator[str]:
        data, bars = self.data, self.declared.mark == "bar"
        if self.declared.interval:
            known = data[data[self.declared.interval[0]].notna()]
            roles = known.get("role", pd.Series("", known.index))
            lines = roles.isin(ROLES)
            if not lines.all():
                yield f"{'Thin lines' if bars else 'Bars'}: {self.declared.interval_is}."
            if lines.any():
                yield f"Shaded: {self.declared.interval_is}."
        if "flags" in data and data["flags"].fillna("").ne("").any():
            yield f"{'Pale bars' if bars else 'Hollow points'} call for caution."
        if "repeats" in data and data["repeats"].fillna(0).eq(1).any():
            yield f"{'Bars without a line' if bars else 'Pale points'} were launched once."

    def shows(self, column: str, value: str) -> bool:
        """Return whether its rows have this value of a column of `each`, or compare several."""
        if column == "line" and column not in self.of:  # not every strategy is in a comparison
            return value in {*self.data.get("strategy", [value])}
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
    def spec(self) -> dict[str, Any]:
        """Its Vega-Lite specification, with its data inline."""
        title, plots = self.finding, self.declared.plots
        shared = [name for name in ("model", "experiment", "line", "strategy") if name in self.of]
        where = [str(self.titled[name].iloc[0]) for name in shared]
        for name, written in (("batch_per_worker", "batch {:g}"), ("epochs", "epochs: {:g}")):
            values = {*self.titled.filter([name]).dropna().to_numpy().flat}
            where += [written.format(*values)] if len(values) == 1 else []
        plotted = [*([plots] if title else []), *self.kinds, *where]
        words = {"text": title or plots, "subtitle": " · ".join(plotted)}
        return draw(self.declared, self.titled) | {"title": words, "description": self.alt}

    @property
    def script(self) -> str:
        """A script that gives the page the specification, without what the page already has."""
        spec = {key: self.spec[key] for key in self.spec if key not in ("config", "description")}
        return f"(window.nodewiseCharts ??= {{}})[{script_json(self.name)}]={script_json(spec)};\n"

    @cached_property
    def svg(self) -> str:
        """A picture of it, `theme.WIDTH` pixels wide on a white background."""
        return self._drawn(theme.WIDTH)

    @cached_property
    def phone_svg(self) -> str:
        """The same for narrow screens, `theme.PHONE` pixels wide."""
        return self._drawn(theme.PHONE)

    def _drawn(self, width: int) -> str:
        spec = json.dumps(at_width(self.spec, width))
        svg: str = vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE)
        for unused in _UNUSED:
            svg = re.sub(unused, "", svg)
        return svg

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """The widths and the heights of both pictures in pixels."""
        return [_size(self.svg), _size(self.phone_svg)]

    @property
    def table(self) -> Table:
        """Its points as a table, without what only the chart or its words need."""
        hidden = {*_UNSEEN, *self.of, *self.declared.units}
        columns = [name for name in map(str, self.titled) if name not in hidden]
        rows = self.titled
        rows = rows[~rows["role"].isin(ROLES)] if "role" in rows else rows
        return table(rows, [Column(name, title_of_column(name)) for name in columns])

    def files(self) -> dict[str, str]:
        """Return its files, by name: specification, data, picture, and script for pages."""
        spec = json.dumps(self.spec, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        data = self.data.to_csv(index=False, lineterminator="\n")
        endings = {"vl.json": f"{spec}\n", "csv": data, "js": self.script}
        endings |= {"svg": self.svg, "phone.svg": self.phone_svg}
        return {f"{self.name}.{ending}": text for ending, text in endings.items()}


def _size(svg: str) -> tuple[int, int]:
    width, height = re.findall(r' (?:width|height)="(\d+)', svg.partition(">")[0])
    return int(width), int(height)


def charts_of(
    declared: Figure, rows: pd.DataFrame, with_titles: Callable[[pd.DataFrame], pd.DataFrame]
) -> Iterator[Chart]:
    """Yield the charts of a figure, one for each combination of the values of `each`.

    The rows are what its `rows` returned; `with_titles` replaces names in them by titles.
    """
    if rows.empty:
        return
    names: Counter[str] = Counter()
    groups = rows.groupby([*declared.each], sort=True) if declared.each else [((), rows)]
    for key, part in groups:
        of = {name: str(value) for name, value in zip(declared.each, key, strict=True) if value}
        telling = [value for column, value in of.items() if column not in _UNNAMED]
        name = re.sub(r"[^a-z0-9_]+", "-", "-".join([*telling, declared.name]).lower())
        names[name] += 1
        name = f"{name}-{names[name]}" if names[name] > 1 else name
        data = part.reset_index(drop=True)
        yield Chart(declared, name, of, data, with_titles(data))


def _finding(figure: Figure, rows: pd.DataFrame) -> str:
    """Return the title that states what the points of a chart show.

    Only points that count as evidence are told of; see `Figure.title`. The title is empty if there
    are none, or if a value that it needs is missing.
    """
    told = rows.query(figure.told) if figure.told else rows
    if "lacks" in told:
        told = told[told["lacks"] == ""]
    rank = [*(figure.rank or filter(None, (figure.place.field, figure.colour or figure.facet)))]
    told = told.dropna(subset=rank).sort_values(rank, kind="stable")
    if told.empty:
        return ""
    last = told.iloc[-1]
    first = told[(told[rank[:-1]] == last[rank[:-1]]).all(axis=1)].iloc[0]
    words = _in_words(figure, last)
    if first[rank[-1]] != last[rank[-1]]:
        words |= {f"{name}_first": text for name, text in _in_words(figure, first).items()}
    for template in figure.title:
        if {name for _, name, _, _ in Formatter().parse(template) if name} <= words.keys():
            return template.format(**words)
    return ""


def _in_words(figure: Figure, row: "pd.Series[Any]") -> dict[str, str]:
    """Return the values of a row in words, with their units, without those that are missing."""
    value = figure.x if figure.place is figure.y else figure.y
    units = dict.fromkeys(figure.interval or (), value.unit)
    units |= {axis.field: axis.unit for axis in (figure.x, figure.y)} | {**figure.units}
    return {
        str(name): value
        if isinstance(value, str)
        else write_number(float(value), units.get(str(name), "")).replace(" ", "\u00a0")
        for name, value in row.items()
        if not pd.isna(value) and value != ""
    }


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

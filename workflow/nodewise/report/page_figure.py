"""Read figures from their files and describe them to pages."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pandas as pd

from nodewise.core.errors import UserError
from nodewise.core.units import base_kind
from nodewise.report.html import script_json
from nodewise.report.tables import Table, Words, data_table

# filters of the page that lists the cells: name -> the axis that has its value
_CELLS = {
    **{axis: axis for axis in ("experiment", "model", "strategy")},
    "batch": "batch_per_worker",
}
_OURS = {"measured", "emulated", "emulated soft"}  # the kinds of numbers that come from our cells
_SIZE = re.compile(r'<svg [^>]*?width="(\d+)[\d.]*" height="(\d+)')
# efficiency is the speed-up per node, and the final accuracy has a chart of its own
_TOLD_BY_OTHERS = ("efficiency", "accuracy-by-epoch")
_SHOWN = 3  # charts of a section, so that readers on a phone can scroll past it


@dataclass(frozen=True)
class PageFigure:
    """A figure on a page.

    Attributes:
        name: the name of its files, without their endings.
        spec: its Vega-Lite specification, which also has all its words.
        csv: its data as CSV.
        width: the width of its picture in pixels.
        height: the height of its picture in pixels.
    """

    name: str
    spec: dict[str, Any]
    csv: str
    width: int
    height: int

    @property
    def figure(self) -> str:
        """The name under which the figure is registered, such as `time`."""
        return str(self.spec["usermeta"]["figure"])

    @property
    def of(self) -> dict[str, str]:
        """The axes along which all its data have the same value, name -> value."""
        return dict(self.spec["usermeta"]["of"])

    @property
    def kinds(self) -> list[str]:
        """The kinds of the numbers that it shows."""
        return list(self.spec["usermeta"]["kinds"])

    @property
    def finding(self) -> str:
        """The sentence in its title that says what it shows; empty if it has none."""
        title = str(self.spec["title"]["text"])
        return title if title != self.spec["usermeta"]["plain"]["text"] else ""

    @property
    def caption(self) -> str:
        """How to read the figure."""
        return str(self.spec["usermeta"]["caption"])

    @property
    def alt(self) -> str:
        """A description of the picture in words."""
        return str(self.spec["description"])

    @property
    def cells(self) -> str:
        """The URL query that makes the list of cells show the cells of this figure.

        Empty if its numbers do not come from our own cells, or its data are not all of one model.
        """
        of = {name: self.of[axis] for name, axis in _CELLS.items() if axis in self.of}
        return urlencode(of) if "model" in of and _OURS & {*map(base_kind, self.kinds)} else ""

    @property
    def script(self) -> str:
        """A script that gives the page the figure's specification.

        The page already has the settings of all charts and the figure's words, so these are left
        out.
        """
        left_out = ("config", "description", "usermeta")
        spec = {key: self.spec[key] for key in self.spec if key not in left_out}
        return f"(window.nodewiseCharts ??= {{}})[{script_json(self.name)}]={script_json(spec)};\n"

    @cached_property
    def data(self) -> pd.DataFrame:
        """The data that it draws."""
        return pd.read_csv(StringIO(self.csv))

    def table(self, words: Words) -> Table:
        """Return its data as a table, with titles for the names in the columns of `words`.

        Cell ids, empty columns and columns of text with the same value in all rows are left out:
        the figure's words already state the shared values.
        """
        shown = self.data.drop(columns="cell_id", errors="ignore").dropna(axis=1, how="all")
        texts = shown.select_dtypes(exclude="number")
        same = [name for name in texts if len(shown) > 1 and texts[name].nunique(dropna=False) == 1]
        return data_table(shown.drop(columns=same), words)


def part_figures(figures: Sequence[PageFigure]) -> tuple[list[PageFigure], list[PageFigure]]:
    """Split the figures of a section into those to show, at most three, and those to fold away.

    A figure is folded away if another one shows the same thing in another form, if it has no
    finding but others have one, or if three are already shown.
    """
    own = [one for one in figures if one.figure not in _TOLD_BY_OTHERS]
    first = ([one for one in own if one.finding] or own or [*figures])[:_SHOWN]
    return first, [one for one in figures if one not in first]


def read_figure(path: Path) -> PageFigure:
    """Read a figure from its specification and from the CSV and SVG files beside it.

    Args:
        path: the specification, `NAME.vl.json`.

    Raises:
        UserError: the SVG file is missing or is not the picture of a chart.
    """
    name = path.name.removesuffix(".vl.json")
    csv = path.with_name(f"{name}.csv").read_text(encoding="utf-8")
    picture = path.with_name(f"{name}.svg")
    size = _SIZE.search(picture.read_text(encoding="utf-8") if picture.is_file() else "")
    if not size:
        raise UserError(f"{picture}: is not the picture of a chart; draw it again")
    spec = json.loads(path.read_text(encoding="utf-8"))
    return PageFigure(name, spec, csv, int(size[1]), int(size[2]))

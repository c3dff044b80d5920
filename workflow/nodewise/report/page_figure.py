"""A figure on a page."""

import json
import re
from collections.abc import Iterable, Sequence
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

# what readers filter a page's figures by: name -> the axes and columns that say it
_FILTERS = {
    "model": ("model",),
    "strategy": ("strategy", "line"),
    "batch": ("batch_per_worker",),
    "nodes": ("nodes",),
}
# what the list of cells is filtered by -> the axis that says it
_CELLS = {
    **{axis: axis for axis in ("experiment", "model", "strategy")},
    "batch": "batch_per_worker",
}
_OURS = {"measured", "emulated", "emulated soft"}  # the kinds of what our cells measured
_SIZE = re.compile(r'<svg [^>]*?width="(\d+)[\d.]*" height="(\d+)')
# efficiency is speed-up per node, and the last accuracy has a chart of its own
_TOLD_BY_OTHERS = ("efficiency", "accuracy-by-epoch")
_SHOWN = 3  # charts of a section, so that a telephone's reader gets past it


@dataclass(frozen=True)
class PageFigure:
    """A figure as a page shows it; its specification holds all its words.

    `width` and `height` are those of its picture, in pixels.
    """

    name: str
    spec: dict[str, Any]
    csv: str
    width: int
    height: int

    @property
    def figure(self) -> str:
        """Which figure it is, such as `time`."""
        return str(self.spec["usermeta"]["figure"])

    @property
    def of(self) -> dict[str, str]:
        """The axes that its data share."""
        return dict(self.spec["usermeta"]["of"])

    @property
    def kinds(self) -> list[str]:
        """The kinds of the numbers it shows."""
        return list(self.spec["usermeta"]["kinds"])

    @property
    def finding(self) -> str:
        """What it shows, if enough is known: then its title says that, not what is plotted."""
        title = str(self.spec["title"]["text"])
        return title if title != self.spec["usermeta"]["plain"]["text"] else ""

    @property
    def caption(self) -> str:
        """How to read it."""
        return str(self.spec["usermeta"]["caption"])

    @property
    def alt(self) -> str:
        """The picture in words."""
        return str(self.spec["description"])

    @property
    def views(self) -> list[str]:
        """The ways to look at its values, by name."""
        return [view["name"] for view in self.spec["usermeta"]["views"]]

    @property
    def cells(self) -> str:
        """The query of the list of cells that shows those it is of; empty if they are not ours."""
        of = {name: self.of[axis] for name, axis in _CELLS.items() if axis in self.of}
        return urlencode(of) if "model" in of and _OURS & {*map(base_kind, self.kinds)} else ""

    @property
    def script(self) -> str:
        """A script that hands its specification to a page that has settings and words already."""
        keys = ("axis", "labels", "plain", "views")
        about = {key: self.spec["usermeta"][key] for key in keys}
        spec = {key: self.spec[key] for key in self.spec if key not in ("config", "description")}
        spec |= {"usermeta": about}
        return f"(window.nodewiseCharts ??= {{}})[{script_json(self.name)}]={script_json(spec)};\n"

    @cached_property
    def data(self) -> pd.DataFrame:
        """What it draws."""
        return pd.read_csv(StringIO(self.csv))

    def table(self, words: Words) -> Table:
        """Return its data, names in `words`, without what all rows share: its text says that."""
        shown = self.data.drop(columns="cell_id", errors="ignore").dropna(axis=1, how="all")
        texts = shown.select_dtypes(exclude="number")
        same = [name for name in texts if len(shown) > 1 and texts[name].nunique(dropna=False) == 1]
        return data_table(shown.drop(columns=same), words)

    @cached_property
    def filters(self) -> dict[str, str]:
        """What it can be filtered by: name -> the values, separated by `|`."""
        found = {name: self._values(axes) for name, axes in _FILTERS.items()}
        return {name: "|".join(values) for name, values in found.items() if values}

    def filters_in(self, words: Words) -> dict[str, str]:
        """Return `filters`, and the titles of the names in them, in the same order."""
        titles = {
            f"{name}-titles": "|".join(map(words[name], values.split("|")))
            for name, values in self.filters.items()
            if name in words
        }
        return self.filters | titles

    def _values(self, axes: Iterable[str]) -> list[str]:
        """Return the values of `axes`; what is published is compared with, whatever is chosen."""
        shared = [self.of[axis] for axis in axes if axis in self.of]
        rows = [self.data[axis].unique() for axis in axes if axis in self.data]
        values = dict.fromkeys([*shared, *(str(value) for part in rows for value in part)])
        return [value for value in values if value != "published"]


def part_figures(figures: Sequence[PageFigure]) -> tuple[list[PageFigure], list[PageFigure]]:
    """Return the figures of a section to show, at most three, and those to fold.

    Folded are those that tell what another one does in other words, those without a finding where
    others have one, and those beyond three.
    """
    own = [one for one in figures if one.figure not in _TOLD_BY_OTHERS]
    first = ([one for one in own if one.finding] or own or [*figures])[:_SHOWN]
    return first, [one for one in figures if one not in first]


def read_figure(path: Path) -> PageFigure:
    """Read a figure by its specification, which its data and its picture stand beside.

    Raises:
        UserError: the picture is none.
    """
    name = path.name.removesuffix(".vl.json")
    csv = path.with_name(f"{name}.csv").read_text(encoding="utf-8")
    picture = path.with_name(f"{name}.svg")
    size = _SIZE.search(picture.read_text(encoding="utf-8") if picture.is_file() else "")
    if not size:
        raise UserError(f"{picture}: is not the picture of a chart; draw it again")
    spec = json.loads(path.read_text(encoding="utf-8"))
    return PageFigure(name, spec, csv, int(size[1]), int(size[2]))

"""The figures: tables -> Vega-Lite specifications with their data and words.

Each figure registers itself with `@figure(...)` in a module of this folder. To add one, write such
a module; nothing else has to be changed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from nodewise.core.registry import Registry
from nodewise.report.figure import Figure, called

Tables = Mapping[str, pd.DataFrame]
Rows = Callable[[dict[str, pd.DataFrame]], pd.DataFrame]
Draw = Callable[[pd.DataFrame, dict[str, str]], Figure | None]

MODELS = "models"
"""The frame of what models compute and communicate, which is no table of a study."""
ALL_REDUCES = "all_reduces"
"""The frame of the all-reduces of calibrations, which is no table of a study."""


@dataclass(frozen=True)
class Declaration:
    """What is known of a figure before it is drawn.

    Attributes:
        tables: the tables that it is made from, by name.
        rows: takes these tables and returns the rows that it draws.
        axes: the columns that tell one drawing from another: each combination gets one.
        section: the heading under which the result pages show it; empty if they do not.
        order: its place among others on a page.
        draw: takes the rows of one combination, and which it is; None if there is nothing to see.
    """

    tables: tuple[str, ...]
    rows: Rows
    axes: tuple[str, ...]
    section: str
    order: int
    draw: Draw


FIGURES: Registry[Declaration] = Registry("figure", "nodewise.report.figures")


def figure(
    name: str,
    *,
    tables: str,
    rows: Rows,
    axes: Sequence[str],
    section: str = "",
    order: int = 0,
) -> Callable[[Draw], Draw]:
    """Register the decorated function as the figure `name`; see `Declaration`.

    Args:
        name: what `Figure.figure` is, too.
        tables: the names of its tables, separated by spaces.
        rows: see `Declaration`, as are the other arguments.
        axes: see there.
        section: see there.
        order: see there.
    """

    def register(draw: Draw) -> Draw:
        declared = Declaration(tuple(tables.split()), rows, tuple(axes), section, order, draw)
        FIGURES.add(name, declared)
        return draw

    return register


def draw_figures(tables: Tables, titles: Mapping[str, str]) -> Iterator[Figure]:
    """Yield every figure that the tables have data for, those with a lower `order` first.

    A figure sees the tables that it names, and is left out if one of them is not there. Where it
    shows an experiment, it has the title of that; `titles` are those that are known, by name.
    """
    for name in sorted(FIGURES, key=lambda one: (FIGURES[one].order, one)):
        declared = FIGURES[name]
        if set(declared.tables) <= set(tables):
            rows = declared.rows({table: tables[table] for table in declared.tables})
            for part, of in _each(rows, declared.axes):
                if "experiment" in part:
                    part["experiment"] = part["experiment"].replace(titles)
                drawn = declared.draw(part, of)
                if drawn is not None:
                    yield replace(drawn, where=_where(of, titles))


def _where(of: Mapping[str, str], titles: Mapping[str, str]) -> list[str]:
    experiment = [titles.get(of["experiment"], of["experiment"])] if "experiment" in of else []
    return [*experiment, *(called(of[axis]) for axis in ("line", "strategy") if axis in of)]


def sections() -> dict[str, list[str]]:
    """Return the headings of the result pages in their order, and the figures of each."""
    found: dict[str, list[str]] = {}
    for name in sorted(FIGURES, key=lambda one: (FIGURES[one].order, one)):
        if FIGURES[name].section:
            found.setdefault(FIGURES[name].section, []).append(name)
    return found


def _each(rows: pd.DataFrame, axes: Sequence[str]) -> Iterator[tuple[pd.DataFrame, dict[str, str]]]:
    """Yield the rows of each combination of `axes`, and which combination it is."""
    if rows.empty:
        return
    for key, part in rows.groupby([*axes]):
        of = {axis: str(value) for axis, value in zip(axes, key, strict=True) if value}
        yield part.reset_index(drop=True), of

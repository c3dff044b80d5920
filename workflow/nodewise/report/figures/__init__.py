"""Draw the figures of a study from its tables.

Each figure is a function that is registered with `@figure(...)` in a module of this folder. To add
a figure, write such a module; nothing else has to be changed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace

import pandas as pd

from nodewise.core.registry import Registry
from nodewise.report.figure import Figure, share_axis
from nodewise.report.figures._encodings import strategy_titles
from nodewise.report.figures._panels import MOST_LINES, panels
from nodewise.report.titles import Variant, short_title

Tables = Mapping[str, pd.DataFrame]
Rows = Callable[[dict[str, pd.DataFrame]], pd.DataFrame]
Draw = Callable[[pd.DataFrame], Figure | None]

MODELS = "models"
"""Name of the frame of what models compute and communicate, which is not a table of the study."""
ALL_REDUCES = "all_reduces"
"""Name of the frame of the all-reduces of calibrations, which is not a table of the study."""


FIGURES: "Registry[figure]" = Registry("figure", "nodewise.report.figures")


@dataclass
class figure:  # noqa: N801 (a decorator)
    """Register the decorated function as a figure.

    Attributes:
        name: the name under which pages refer to the figure.
        tables: the names of the tables that the figure needs, separated by spaces.
        rows: a function that takes these tables and returns the rows to draw.
        axes: columns of the rows; one drawing is made for each combination of their values.
        plots: what is plotted, in a few words.
        reading: how to read the figure, in sentences that hold for all drawings. They are on a page
            of their own, to which every chart links.
        lines: the columns that distinguish the lines of a drawing, if there can be many. If there
            are more than `most`, the drawing is split into panels, first by the first column.
        most: the most lines that a panel may have.
        section: the heading under which the pages of results show the figure; empty if they do not.
        order: its place among the figures of a page; lower numbers come first.
        draw: the decorated function. It takes the rows of one combination and returns a `Figure`,
            or None if there is nothing to show. If the rows have a column `line` or `strategy`,
            they also have `strategy_title` and `variant_of`, the strategy that the name is a
            variant of, or the name itself.
    """

    name: str
    _: KW_ONLY
    tables: str
    rows: Rows
    axes: Sequence[str]
    plots: str
    reading: str
    lines: Sequence[str] = ()
    most: int = MOST_LINES
    section: str = ""
    order: int = 0
    draw: Draw = field(init=False)

    def __call__(self, draw: Draw) -> Draw:
        """Register `draw` and return it."""
        self.draw = draw
        FIGURES.add(self.name, self)
        return draw


def draw_figures(
    tables: Tables, experiments: Mapping[str, str], variants: Mapping[str, Variant]
) -> Iterator[Figure]:
    """Yield every figure for which there are data, those with a lower `order` first.

    A figure is left out if a table that it needs is missing.

    Args:
        tables: the tables of a study, by name.
        experiments: the titles of experiments, by name.
        variants: the study's own variants of strategies, by name.
    """
    for name in by_order():
        declared = FIGURES[name]
        needed = declared.tables.split()
        if not set(needed) <= set(tables):
            continue
        rows = declared.rows({table: tables[table] for table in needed})
        for part, of in _each(rows, declared.axes):
            titled = _with_titles(part, experiments, variants)
            titles = strategy_titles(titled) if "strategy_title" in titled else {}
            for drawn in _draw_panels(declared, titled):
                own = {**of, **drawn.of}
                where = _where(own, experiments, variants)
                yield replace(drawn, figure=name, of=own, where=where, titles=titles)


def _draw_panels(declared: figure, rows: pd.DataFrame) -> list[Figure]:
    """Return one drawing, or several panels that share the range of their value axis.

    Each panel has its name as `of["panel"]`.
    """
    found = []
    for name, part in panels(rows, declared.lines, declared.most):
        drawn = declared.draw(part.reset_index(drop=True))
        if drawn is not None:
            found.append(replace(drawn, of={"panel": name} if name else {}))
    return share_axis(found)


def by_order() -> list[str]:
    """Return the names of all figures, in the order in which pages show them."""
    return sorted(FIGURES, key=lambda name: (FIGURES[name].order, name))


def _with_titles(
    rows: pd.DataFrame, experiments: Mapping[str, str], variants: Mapping[str, Variant]
) -> pd.DataFrame:
    """Replace the names of experiments by titles, and add `strategy_title` and `variant_of`.

    `variant_of` is the registered strategy that a name stands for. The two columns are added only
    if the rows have a column `line` or `strategy`.
    """
    if "experiment" in rows:
        rows = rows.assign(experiment=rows["experiment"].replace(experiments))
    behind = {name: variant.strategy for name, variant in variants.items()}
    for column in ("line", "strategy"):
        if column in rows:
            titles = rows[column].map(lambda name: _strategy_title(name, variants))
            return rows.assign(strategy_title=titles, variant_of=rows[column].replace(behind))
    return rows


def _where(
    of: Mapping[str, str], experiments: Mapping[str, str], variants: Mapping[str, Variant]
) -> list[str]:
    """Return the titles of the experiment, the strategy and the panel that a figure shows."""
    titles: dict[str, Callable[[str], str]] = {
        "experiment": lambda name: experiments.get(name, name),
        "line": lambda name: _strategy_title(name, variants),
        "strategy": lambda name: _strategy_title(name, variants),
        "panel": str,
    }
    return [title(of[axis]) for axis, title in titles.items() if axis in of]


def _strategy_title(name: str, variants: Mapping[str, Variant]) -> str:
    return variants[name].title if name in variants else short_title(name)


def sections() -> dict[str, list[str]]:
    """Return the names of the figures under each heading of the pages of results, in order."""
    found: dict[str, list[str]] = {}
    for name in by_order():
        if FIGURES[name].section:
            found.setdefault(FIGURES[name].section, []).append(name)
    return found


def _each(rows: pd.DataFrame, axes: Sequence[str]) -> Iterator[tuple[pd.DataFrame, dict[str, str]]]:
    """Yield the rows of each combination of values of `axes`, with these values by axis."""
    if rows.empty:
        return
    for key, part in rows.groupby([*axes]):
        of = {axis: str(value) for axis, value in zip(axes, key, strict=True) if value}
        yield part.reset_index(drop=True), of

"""The figures: tables -> Vega-Lite specifications with their data and words.

Each figure registers itself with `@figure(...)` in a module of this folder. To add one, write such
a module; nothing else has to be changed.
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
"""The frame of what models compute and communicate, which is no table of a study."""
ALL_REDUCES = "all_reduces"
"""The frame of the all-reduces of calibrations, which is no table of a study."""


FIGURES: "Registry[figure]" = Registry("figure", "nodewise.report.figures")


@dataclass
class figure:  # noqa: N801 (a decorator)
    """Register the decorated function as a figure, with what is known before it is drawn.

    Attributes:
        name: what pages call it.
        tables: the names of the tables that it is made from, separated by spaces.
        rows: takes these tables and returns the rows that it draws.
        axes: the columns that tell one drawing from another: each combination gets one.
        plots: what it plots, in a few words.
        reading: how to read it, in sentences that hold for all of its drawings; a page of its own
            has them, and every chart a link to it.
        lines: the columns that tell the lines of a drawing from each other, if they can be many:
            those beyond `most` have panels of their own. The first parts them first.
        most: how many lines a panel may have.
        section: the heading under which the result pages show it; empty if they do not.
        order: its place among others on a page.
        draw: the decorated function: takes the rows of one combination; returns None if there is
            nothing to see. The rows have the `strategy_title` of each `line` or `strategy`, and
            `variant_of`: the strategy that it is a variant of, or itself.
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
    """Yield every figure that the tables have data for, those with a lower `order` first.

    A figure sees the tables that it names, and is left out if one of them is not there.

    Args:
        tables: those of a study, by name.
        experiments: the titles of experiments, by name.
        variants: the strategies with options that the study names itself, by name.
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
    """Return one drawing, or its panels, which share an axis and say which `panel` they are."""
    found = []
    for name, part in panels(rows, declared.lines, declared.most):
        drawn = declared.draw(part.reset_index(drop=True))
        if drawn is not None:
            found.append(replace(drawn, of={"panel": name} if name else {}))
    return share_axis(found)


def by_order() -> list[str]:
    """Return the names of all figures, in the order of their places on a page."""
    return sorted(FIGURES, key=lambda name: (FIGURES[name].order, name))


def _with_titles(
    rows: pd.DataFrame, experiments: Mapping[str, str], variants: Mapping[str, Variant]
) -> pd.DataFrame:
    """Return rows with the titles of experiments, and columns that say what strategies are.

    These are the `strategy_title`, and `variant_of`: the strategy that a name stands for.
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
    """Return the titles of the experiment, the strategy and the panel that a figure is of."""
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
    """Return the headings of the result pages in their order, and the figures of each."""
    found: dict[str, list[str]] = {}
    for name in by_order():
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

"""Declare a figure: the rows that it shows, its axes, and its words.

`charts.py` makes the charts of a declaration, `drawing.py` draws them. How to declare one is in
`figures/__init__.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Literal

import pandas as pd

if TYPE_CHECKING:
    from nodewise.report.context import ReportContext

Rows = Callable[["ReportContext"], pd.DataFrame]


@dataclass(frozen=True)
class Axis:
    """An axis of a figure.

    Attributes:
        field: the column of the rows.
        title: its title, with the unit.
        scale: `linear` begins at zero (the horizontal axis at its first value), `log` is
            logarithmic, `accuracy` spans the values but at least 0.05, and `names` has one row for
            each name, in the order of the rows.
        unit: the unit in which words state its values, one of those of `write_number`.
    """

    field: str
    title: str
    scale: Literal["linear", "log", "accuracy", "names"] = "linear"
    unit: str = ""


@dataclass(frozen=True)
class Figure:
    """A kind of chart, of which each combination of the values of `each` gets one.

    Attributes:
        name: the name by which pages ask for it, such as `time`.
        rows: returns the rows of all its charts. They have a column `kind` (a label of
            `kind_label`), and these where they apply: `cell_id`, `repeats` (launches), `flags`
            (cautions), `lacks` (what a point lacks to count as evidence, empty if it counts), and
            `role`: rows that are `fitted` or `predicted` are only lines, all others only points.
        each: the columns that select the rows of one chart; without any, there is one chart.
        plots: what is plotted, in a few words.
        x: the horizontal axis.
        y: the vertical axis; with `names`, points and intervals are horizontal.
        mark: lines with points, points, or horizontal bars that are stacked by colour.
        interval: the columns of the lower and the upper end of an interval.
        interval_is: what the interval is, for the caption.
        colour: the column whose values have different colours and shapes. With more than six values
            and without a facet, it becomes the facet.
        facet: the column of which each value gets a panel of its own.
        free: whether each panel has a horizontal axis of its own.
        guide: a dashed line: `diagonal` where both axes are equal, `one` where values are 1.
        title: templates of the title, such as `{nodes} nodes are {speedup} as fast as one`. A name
            is a column of the row that the title tells of, or with `_first` of the row that it is
            compared with. The first template is used whose names all have values.
        told: a query that selects the rows that the title may tell of. Rows that lack evidence are
            left out in any case.
        rank: the columns by which these rows are ranked. The title tells of the last one. It is
            compared with the first one that is equal in all of `rank` but the last column.
        units: the units of other columns that the title tells, as in `write_number`.
        caption: how to read one chart, in a sentence; may be empty.
        reading: how to read all its charts, for the page that explains charts.
    """

    name: str
    rows: Rows
    _: KW_ONLY
    each: Sequence[str]
    plots: str
    x: Axis
    y: Axis
    mark: Literal["line", "point", "bar"] = "line"
    interval: tuple[str, str] | None = None
    interval_is: str = "90 % interval"
    colour: str = ""
    facet: str = ""
    free: bool = False
    guide: Literal["", "diagonal", "one"] = ""
    title: Sequence[str] = ()
    told: str = ""
    rank: Sequence[str] = ()
    units: Mapping[str, str] = field(default_factory=dict)
    caption: str = ""
    reading: str = ""

    @property
    def place(self) -> Axis:
        """The axis that does not have the values: the one of names, or else the horizontal one."""
        return self.y if self.y.scale == "names" else self.x

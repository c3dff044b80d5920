"""Turn rows and columns into the tables of a page."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Number
from typing import Any

import pandas as pd
from markupsafe import Markup

from nodewise.core.units import write_plain
from nodewise.report.html import badge, data, text
from nodewise.results.columns import title_of_column

Row = Mapping[Any, Any]
Words = Mapping[str, Callable[[str], str]]
"""For each column of names, the function that returns the title of a name."""

_RIGHT, _PLAIN = Markup("nw-right"), Markup("")
_TEXT, _WIDE = Markup("nw-text"), Markup("nw-wide")
_SHORT = 16  # letters; cells up to this length need no minimum width
_NOTHING = 1  # letter: the dash of an empty cell


@dataclass(frozen=True)
class Column:
    """One column of a table on a page.

    A column of numbers must state their kind, by either `kind` or `kind_from`. Counts that are
    labels rather than results, such as nodes or steps, have no unit and need no kind.

    Attributes:
        name: the name of the column in the data.
        title: its title in the table.
        unit: the unit of its numbers, one of those of `write_number`; None for all other values.
        kind: the kind of all its numbers.
        kind_from: the column of the same table that has the kind of each row's number.
        low: the column of the lower end of an interval, which is written below the number.
        high: the column of the upper end of that interval.
        wide: whether its cells hold sentences.

    Raises:
        ValueError: numbers have no kind, or both `kind` and `kind_from` are given.
    """

    name: str
    title: str
    unit: str | None = None
    kind: str | None = None
    kind_from: str | None = None
    low: str | None = None
    high: str | None = None
    wide: bool = False

    def __post_init__(self) -> None:
        if self.unit is not None and (self.kind is None) == (self.kind_from is None):
            raise ValueError(f"column {self.name}: numbers need either kind or kind_from")


EXPERIMENT = Column("experiment", "Experiment", wide=True)
MODEL = Column("model", "Model")
STRATEGY = Column("strategy", "Strategy")
BATCH = Column("batch_per_worker", "Batch per worker")
NODES = Column("nodes", "Nodes")
NODE = Column("cluster", "Node")
MACHINE = Column("machine", "Machine")
KIND = Column("label", "Kind")
LAUNCHES = Column("repeats", "Launches")
LAUNCH = Column("repeat", "Launch")
FLAGS = Column("flags", "Caution", wide=True)
EXAMPLES = Column("examples_per_s", "Examples/s", "/s", kind_from="label")
EXAMPLES_INTERVAL = replace(EXAMPLES, low="examples_per_s_low", high="examples_per_s_high")
STEP_TIME = Column(
    *("step_time_s", "Step time", "s"),
    kind_from="label",
    low="step_time_low_s",
    high="step_time_high_s",
)
SPEEDUP = Column("speedup", "Speed-up", "×", kind_from="label")
AGAINST_ONE = replace(SPEEDUP, title="Against one node", low="speedup_low", high="speedup_high")
EFFICIENCY = Column("efficiency", "Efficiency", "share", kind_from="label")
BYTES_SENT = Column("bytes_sent_per_step", "Sent per step", "B", kind_from="label")

POINT = [EXPERIMENT, MODEL, STRATEGY, BATCH, NODES]
RATE = [
    LAUNCHES,
    EXAMPLES_INTERVAL,
    Column("against_one", "Against one node", "×", kind_from="label"),
]
CAUTION = [KIND, FLAGS]
EVIDENCE = [*CAUTION, Column("missing", "Needed to count as evidence", wide=True)]


@dataclass(frozen=True)
class Table:
    """A table on a page, as markup.

    Attributes:
        heads: the heads of the columns.
        rows: the cells of each row.
        classes: the CSS class of each column.
    """

    heads: Sequence[Markup]
    rows: Sequence[Sequence[Markup]]
    classes: Sequence[Markup]

    @property
    def body(self) -> Markup:
        """The rows as HTML. They are joined here because this is slow in a template."""
        rows = (f"<tr><td>{'</td><td>'.join(row)}</td></tr>\n" for row in self.rows)
        return Markup("".join(rows))  # noqa: S704 (cells are markup)


def table(rows: pd.DataFrame | Sequence[Row], columns: Sequence[Column]) -> Table:
    """Return `rows` as a table with `columns`.

    Args:
        rows: the rows; for small tables, mappings are faster than a data frame.
        columns: the columns to show, in this order.

    Raises:
        ValueError: a column has its kinds from another one that is not shown.
    """
    kinds = {column.kind_from for column in columns if column.kind_from is not None}
    hidden = kinds - {column.name for column in columns}
    if hidden:
        raise ValueError(f"{', '.join(hidden)}: the kinds of a column must be shown beside it")
    records = rows.to_dict("records") if isinstance(rows, pd.DataFrame) else rows
    cells = [[_cell(row, column, kinds) for row in records] for column in columns]
    values = [[row[column.name] for row in records] for column in columns]
    return Table(
        heads=[_head(column) for column in columns],
        rows=list(zip(*cells, strict=True)),
        classes=list(map(_class, columns, values, cells)),
    )


def with_kinds_in_heads(rows: pd.DataFrame, columns: Sequence[Column]) -> list[Column]:
    """Return the columns, with kinds in the heads of columns where all rows have the same kind.

    The columns that held these kinds are left out.
    """
    told = {column.kind_from for column in columns if column.kind_from is not None}
    shared = {
        name: str(rows[name].iloc[0])
        for name in told
        if rows[name].notna().all() and rows[name].nunique() == 1
    }
    return [
        replace(column, kind=shared[column.kind_from], kind_from=None)
        if column.kind_from in shared
        else column
        for column in columns
        if column.name not in shared
    ]


def data_table(rows: pd.DataFrame, words: Words) -> Table:
    """Return the data of a chart as a table.

    Columns have titles, and so have the names in the columns of `words`.
    """
    floats = rows.select_dtypes("float64").columns
    written = rows.assign(**{str(name): rows[name].map(write_plain) for name in floats})
    for column in words.keys() & {*rows.columns}:
        titles = {name: words[column](name) for name in rows[column].dropna().unique()}
        written[column] = rows[column].map(titles)
    columns = [Column(str(name), title_of_column(str(name))) for name in rows.columns]
    plain = table(written.where(rows.notna()), columns)
    cells = zip(*plain.rows, strict=True) if len(rows) else ((),) * len(columns)
    classes = list(map(_class, columns, (rows[c.name] for c in columns), cells))
    return Table(plain.heads, plain.rows, classes)


def _class(column: Column, values: Iterable[object], cells: Iterable[Markup]) -> Markup:
    """Return the CSS class of a column: numbers align right, and long texts get more width."""
    known = [value for value in values if value is not pd.NA and value is not None]
    numbers = (isinstance(value, Number) and not isinstance(value, bool) for value in known)
    if column.unit is not None or (known and all(numbers)):
        return _RIGHT
    longest = max((len(cell.striptags()) for cell in cells), default=0)
    if column.wide and longest > _NOTHING:
        return _WIDE
    return _TEXT if longest > _SHORT else _PLAIN


def _head(column: Column) -> Markup:
    title = text(column.title)
    return Markup("{} {}").format(title, badge(column.kind)) if column.kind else title


def _cell(row: Row, column: Column, kinds: Collection[str]) -> Markup:
    value = row[column.name]
    if isinstance(value, bool):
        return text("yes" if value else "")
    if column.unit is None and pd.isna(value):
        return Markup("–")
    if column.unit is None:
        # whole numbers, such as a batch, are floats in a column where some values are missing
        plain = int(value) if isinstance(value, float) and value.is_integer() else value
        return badge(value) if column.name in kinds else text(plain)
    written = data(value, column.unit)
    if column.low is None or column.high is None or pd.isna(row[column.low]):
        return written
    low, high = data(row[column.low], column.unit), data(row[column.high], column.unit)
    return Markup('{}<span class="nw-range">{} to {}</span>').format(written, low, high)

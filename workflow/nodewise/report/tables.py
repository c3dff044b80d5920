"""Turn rows and columns into the tables of a page."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Number
from typing import Any

import pandas as pd
from markupsafe import Markup

from nodewise.core.units import write_plain
from nodewise.report.html import UNMARKED, badge, breakable, count, css_text, data, text

Row = Mapping[Any, Any]
_SHORT = 16  # letters; cells up to this length need no minimum width
_EMPTY = {"", "–"}


@dataclass(frozen=True)
class Column:
    """One column of a table on a page.

    A column of numbers must state their kind, by either `kind` or `kind_from`; counts and error
    rates state one of `html.UNMARKED`, which is not shown. Counts that are labels rather than
    results, such as nodes or steps, have no unit and no kind.

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
NODE = Column("cluster", "Node", wide=True)
MACHINE = Column("machine", "Machine", wide=True)
KIND = Column("label", "Kind")
LAUNCHES = Column("repeats", "Launches")
FLAGS = Column("flags", "Caution", wide=True)
EXAMPLES = Column("examples_per_s", "Examples/s", "/s", kind_from="label")
STEP_TIME = Column(
    "step_time_s",
    "Step time",
    "s",
    kind_from="label",
    low="step_time_low_s",
    high="step_time_high_s",
)
SPEEDUP = Column("speedup", "Speed-up", "×", kind_from="label")
AGAINST_ONE = replace(SPEEDUP, title="Against one node", low="speedup_low", high="speedup_high")
BYTES_SENT = Column("bytes_sent_per_step", "Sent per step", "B", kind_from="label")

ERROR_HALF = Column("median", "Half are within", "share", "error")
ERROR_MOST = Column("p90", "Nine in ten are within", "share", "error")
COVERED = Column("covered", "Inside the 90 % interval", "share", "error")


@dataclass(frozen=True)
class Table:
    """A table on a page, as markup.

    Attributes:
        caption: what all rows have in common; empty if there is nothing.
        heads: the heads of the columns.
        rows: the cells of each row.
        style: the titles of the columns, and how their cells are laid out, as custom properties
            of CSS. Stated once here, they need not be repeated in thousands of cells.
        classes: the CSS class of each column's head, which sets its width.
    """

    caption: Markup
    heads: Sequence[Markup]
    rows: Sequence[Sequence[Markup]]
    style: Markup
    classes: Sequence[str]

    @property
    def body(self) -> Markup:
        """The rows as HTML. They are joined here because this is slow in a template."""
        rows = (f"<tr><td>{'</td><td>'.join(row)}</td></tr>\n" for row in self.rows)
        return Markup("".join(rows))  # noqa: S704 (cells are markup)


def table(rows: pd.DataFrame | Sequence[Row], columns: Sequence[Column]) -> Table:
    """Return `rows` as a table with `columns`, where nothing is said again in every row.

    - A column of names that are all equal moves into the caption. An empty column is left out.
    - A kind that all numbers share is stated in the caption, and one that the numbers of a column
      share in its head. Only where kinds differ from row to row, they have a column.
    - Columns of sentences come last, so that numbers stand beside the names.

    Args:
        rows: the rows; for small tables, mappings are faster than a data frame.
        columns: the columns to show, in this order.

    Raises:
        ValueError: a column has its kinds from another one that is not among `columns`.
    """
    records = rows.to_dict("records") if isinstance(rows, pd.DataFrame) else rows
    sources = {column.kind_from for column in columns if column.kind_from}
    if sources - {column.name for column in columns}:
        raise ValueError(f"the kinds of a column must be shown beside it: {sources}")
    kinds = {column: _kinds(records, column) for column in columns if column.unit is not None}
    mixed = {column.kind_from for column, of in kinds.items() if len(of) > 1}
    every = set().union(*kinds.values())
    kind = every.pop() if len(every) == 1 else None
    shown: list[tuple[Column, list[Markup]]] = []
    same: list[tuple[Column, list[Markup]]] = []
    for column in columns:
        cells = [_cell(row, column, sources) for row in records]
        texts = {cell.striptags() for cell in {*cells}}
        if (texts and texts <= _EMPTY) or column.name in sources - mixed:
            continue
        # only the first of equal names is a link; equal texts with several links differ
        alike = len(texts) == 1 and sum("<" in cell for cell in {*cells}) <= 1
        common = len(records) > 1 and alike and column.unit is None
        (same if common else shown).append((column, cells))
    if all(column.unit is not None for column, _ in shown):
        same, shown = [], [*same, *shown]  # otherwise the rows would have no names
    # the first column names the rows; sorting keeps the order of the others
    shown = [*shown[:1], *sorted(shown[1:], key=lambda one: one[0].wide)]
    facts = [Markup("{}: {}").format(text(column.title), cells[0]) for column, cells in same]
    heads = [_head(column, set() if kind else kinds.get(column, set())) for column, _ in shown]
    numbers = [_is_number(column, (row[column.name] for row in records)) for column, _ in shown]
    return Table(
        caption=Markup(" · ").join([*facts, *([badge(kind)] if kind else [])]),
        heads=heads,
        rows=list(zip(*(cells for _, cells in shown), strict=True)),
        classes=[
            "" if number else _width(*one) for number, one in zip(numbers, shown, strict=True)
        ],
        style=table_style(
            heads,
            right=[at for at, number in enumerate(numbers, 1) if number],
            wide=[at for at, (column, _) in enumerate(shown, 1) if column.wide],
        ),
    )


def _head(column: Column, kinds: set[Any]) -> Markup:
    title = text(column.title)
    return Markup("{} {}").format(title, badge(*kinds)) if len(kinds) == 1 else title


def _kinds(records: Sequence[Row], column: Column) -> set[Any]:
    """Return the kinds of the numbers of a column, without those that are not shown."""
    if column.kind_from is None:
        return {column.kind} - UNMARKED
    return {row[column.kind_from] for row in records if not pd.isna(row[column.name])}


def table_style(
    heads: Sequence[str], right: Iterable[int] = (), wide: Iterable[int] = ()
) -> Markup:
    """Return the `style` of a table: what the style sheet must know about each column.

    Args:
        heads: the heads of the columns.
        right: the columns that align right, counted from 1.
        wide: the columns of sentences, which are as wide as the card of a row on narrow screens.
    """
    titles = [css_text(Markup(head).striptags()) for head in heads]  # noqa: S704 (not shown)
    named = [f"--l{at}:{title};" for at, title in enumerate(titles, 1)]
    named += [f"--a{at}:right;" + "--n1:var(--l1);" * (at == 1) for at in right]
    named += [f"--w{at}:1/-1;" for at in wide]
    return Markup("".join(named))  # noqa: S704 (escaped)


def _is_number(column: Column, values: Iterable[object]) -> bool:
    """Return whether a column has numbers only, which align right."""
    known = [value for value in values if value is not pd.NA and value is not None]
    numbers = (isinstance(value, Number) and not isinstance(value, bool) for value in known)
    return column.unit is not None or (bool(known) and all(numbers))


def _width(column: Column, cells: Iterable[Markup]) -> str:
    """Return the CSS class of a column of texts: the longer they are, the wider it is."""
    if column.wide:
        return "nw-wide"
    return "nw-text" if max((len(cell.striptags()) for cell in cells), default=0) > _SHORT else ""


def _cell(row: Row, column: Column, kinds: Collection[str]) -> Markup:
    value = row[column.name]
    if isinstance(value, bool):
        return text("yes" if value else "")
    if pd.isna(value):
        return Markup("–")
    if column.unit is None:
        plain = write_plain(value) if isinstance(value, float) else value
        return badge(value) if column.name in kinds else breakable(plain)
    write = count if column.kind in UNMARKED else data
    written = write(value, column.unit)
    if column.low is None or column.high is None or pd.isna(row[column.low]):
        return written
    low, high = write(row[column.low], column.unit), write(row[column.high], column.unit)
    return Markup('{}<span class="nw-range">{} to {}</span>').format(written, low, high)

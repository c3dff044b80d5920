"""Values -> safe pieces of a page. The only place where text and numbers become HTML."""

import html
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from numbers import Number
from typing import Any

import pandas as pd
from markupsafe import Markup

from nodewise.core.units import base_kind, write_number, write_plain
from nodewise.results.columns import title_of_column

Row = Mapping[Any, Any]
Words = Mapping[str, Callable[[str], str]]
"""By column: the function that returns what readers are told for a name."""

# control characters, lone surrogates, and marks that turn the direction of writing
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9 \u00a0-\U0010ffff]")
_RIGHT, _WIDE, _PLAIN = Markup("nw-right"), Markup("nw-wide"), Markup("")


def text(value: object) -> Markup:
    """Return `value` as text that means nothing to HTML or to Markdown.

    Every ASCII character but letters, digits and spaces becomes a numeric character reference, a
    new line too, so that the text can neither open markup nor start a Markdown block. What is
    never shown (Markdown uses control characters as marks of its own) becomes U+FFFD.
    """
    return value if isinstance(value, Markup) else _escaped(str(value))


@lru_cache(maxsize=4096)
def _escaped(value: str) -> Markup:
    known = _CONTROL.sub("\ufffd", value)
    return Markup(_NOT_PLAIN.sub(lambda found: f"&#{ord(found[0])};", known))  # noqa: S704


@cache
def badge(kind: str) -> Markup:
    """Return the mark of a kind of number; `kind` is a label of `quantities.kind_label`."""
    return Markup('<span class="nw-kind nw-kind--{}">{}</span>').format(base_kind(kind), text(kind))


def number(value: float | None, unit: str, kind: str) -> Markup:
    """Return a number for running text, its kind beside it; a dash alone if there is none."""
    if value is None or pd.isna(value):
        return Markup("–")
    return Markup(f"{data(value, unit)} {badge(kind)}")  # noqa: S704 (both are markup)


def data(value: float | None, unit: str) -> Markup:
    """Return a number alone, for a place that says its kind once for several."""
    if value is None or pd.isna(value):
        return Markup("–")
    written = text(write_number(float(value), unit).replace(" ", "\u00a0"))
    return Markup(f'<data value="{value:.6g}">{written}</data>')  # noqa: S704 (both are safe)


def between_launches(row: "pd.Series[Any]", kind: str | None = None) -> Markup:
    """Return what the launches of a point and of its one node leave possible of its speed-up."""
    if pd.isna(row["speedup_low"]):
        return Markup(", launched once")
    return interval(row["speedup_low"], row["speedup_high"], "×", kind)


def interval(low: float, high: float, unit: str, kind: str | None = None) -> Markup:
    """Return a 90 % interval; it says its `kind` where it does not follow the number it is of."""
    ends = between(low, high, unit, kind) if kind else _between(low, high, unit)
    return Markup(' <span class="nw-interval">(90\u00a0% interval {})</span>').format(ends)


def between(low: float, high: float, unit: str, kind: str) -> Markup:
    """Return the least and the greatest of several numbers of a kind."""
    said = Markup('<span class="nw-interval">{}</span> {}')
    return said.format(_between(low, high, unit), badge(kind))


def _between(low: float, high: float, unit: str) -> Markup:
    return Markup("{} to {}").format(data(low, unit), data(high, unit))


def script_json(value: object) -> Markup:
    """Return `value` as JSON that can stand inside a `<script>` element."""
    plain = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        plain = plain.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(plain)  # noqa: S704


def front_matter_text(value: str) -> Markup:
    """Return `value` as a YAML string whose content is HTML text, as the theme prints it.

    Markdown does not read it, and a word that is written with references is not found by searches.
    """
    known = html.escape(_CONTROL.sub("\ufffd", value))
    return Markup(json.dumps(known, ensure_ascii=False))  # noqa: S704


@dataclass(frozen=True)
class Column:
    """One column of a table on a page.

    A column of numbers has a unit of `write_number` and says what kind its numbers are: `kind` for
    all of them, or `kind_from`, another column of the same table that says it row by row. A count
    that is an axis or an extent (nodes, steps) is a label, not a result, and needs no kind.
    `low` and `high` name the columns of an interval that is written below the number. A `wide`
    column holds sentences.
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


POINT = [
    Column("experiment", "Experiment", wide=True),
    Column("model", "Model"),
    Column("strategy", "Strategy"),
    Column("batch_per_worker", "Batch per worker"),
    Column("nodes", "Nodes"),
]
RATE = [
    Column("repeats", "Launches"),
    Column(
        *("examples_per_s", "Examples/s", "/s"),
        kind_from="label",
        low="examples_per_s_low",
        high="examples_per_s_high",
    ),
    Column("against_one", "Against one node", "×", kind_from="label"),
]
CAUTION = [Column("label", "Kind"), Column("flags", "Caution", wide=True)]
EVIDENCE = [*CAUTION, Column("missing", "To count as evidence it takes", wide=True)]
STEP_TIME = Column(
    *("step_time_s", "Step time", "s"),
    kind_from="label",
    low="step_time_low_s",
    high="step_time_high_s",
)


@dataclass(frozen=True)
class Table:
    """A table on a page: heads and rows of markup, and a class for each column.

    The data of a chart tell the `names` of their columns, too: readers filter them by those.
    """

    heads: Sequence[Markup]
    rows: Sequence[Sequence[Markup]]
    classes: Sequence[Markup]
    names: Sequence[str] = ()

    @property
    def body(self) -> Markup:
        """Its rows as HTML, joined here: a template takes thousands of cells one by one."""
        rows = (f"<tr><td>{'</td><td>'.join(row)}</td></tr>\n" for row in self.rows)
        return Markup("".join(rows))  # noqa: S704 (cells are markup)


def table(rows: pd.DataFrame | Sequence[Row], columns: Sequence[Column]) -> Table:
    """Return `rows` as a table with `columns`. Small tables are faster from mappings.

    Raises:
        ValueError: the column that says the kinds of another one is not shown.
    """
    kinds = {column.kind_from for column in columns if column.kind_from is not None}
    hidden = kinds - {column.name for column in columns}
    if hidden:
        raise ValueError(f"{', '.join(hidden)}: the kinds of a column must be shown beside it")
    records = rows.to_dict("records") if isinstance(rows, pd.DataFrame) else rows
    return Table(
        heads=[_head(column) for column in columns],
        rows=[[_cell(row, column, kinds) for column in columns] for row in records],
        classes=[_class([row[column.name] for row in records], column) for column in columns],
    )


def titled(name: str, title: str) -> Markup:
    """Return the title of something; scripts that filter by its name find that, too."""
    return Markup('<data class="nw-name" value="{}">{}</data>').format(text(name), text(title))


def data_table(rows: pd.DataFrame, words: Words) -> Table:
    """Return the data of a chart as a table: columns under their titles, names in `words`."""
    floats = rows.select_dtypes("float64").columns
    written = rows.assign(**{str(name): rows[name].map(write_plain) for name in floats})
    for column in words.keys() & {*rows.columns}:
        titles = {
            name: titled(name, words[column](name)) for name in rows[column].dropna().unique()
        }
        written[column] = rows[column].map(titles)
    columns = [Column(str(name), title_of_column(str(name))) for name in rows.columns]
    plain = table(written.where(rows.notna()), columns)
    classes = [_class(rows[c.name], c) for c in columns]
    return Table(plain.heads, plain.rows, classes, [c.name for c in columns])


def _class(values: Iterable[object], column: Column) -> Markup:
    """Return the class of a column: numbers align right, long texts get room."""
    known = [value for value in values if value is not pd.NA and value is not None]
    numbers = (isinstance(value, Number) and not isinstance(value, bool) for value in known)
    if column.unit is not None or (known and all(numbers)):
        return _RIGHT
    return _WIDE if column.wide else _PLAIN


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
        # an axis such as the batch, in a table where some rows have none
        plain = int(value) if isinstance(value, float) and value.is_integer() else value
        return badge(value) if column.name in kinds else text(plain)
    written = data(value, column.unit)
    if column.low is None or column.high is None or pd.isna(row[column.low]):
        return written
    low, high = data(row[column.low], column.unit), data(row[column.high], column.unit)
    return Markup('{}<span class="nw-range">{} to {}</span>').format(written, low, high)


def slug(name: str) -> Markup:
    """Return `name` as a part of an address or an anchor: small letters, digits and hyphens."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "unnamed"
    return Markup(plain)  # noqa: S704 (no character of it means anything)

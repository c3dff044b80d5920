"""Values -> safe pieces of a page. The only place where text and numbers become HTML."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from markupsafe import Markup

from nodewise.quantities import base_kind, write_number

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9 \u00a0-\U0010ffff]")


def text(value: object) -> Markup:
    """Return `value` as text that means nothing to HTML or to Markdown.

    Every ASCII character but letters, digits and spaces becomes a numeric character reference, a
    new line too, so that the text can neither open markup nor start a Markdown block. Control
    characters, which Markdown uses as marks of its own, become U+FFFD.
    """
    if isinstance(value, Markup):
        return value
    known = _CONTROL.sub("\ufffd", str(value))
    return Markup(_NOT_PLAIN.sub(lambda found: f"&#{ord(found[0])};", known))  # noqa: S704


def badge(kind: str) -> Markup:
    """Return the mark of a kind of number; `kind` is a label of `quantities.kind_label`."""
    return Markup('<span class="nw-kind nw-kind--{}">{}</span>').format(
        base_kind(kind), text(kind)
    )


def number(value: Any, unit: str, kind: str) -> Markup:
    """Return a number for running text, its kind beside it."""
    return Markup("{} {}").format(_data(value, unit), badge(kind))


def _data(value: Any, unit: str) -> Markup:
    if pd.isna(value):
        return Markup("–")
    written = text(write_number(float(value), unit).replace(" ", "\u00a0"))
    return Markup('<data value="{}">{}</data>').format(f"{float(value):.6g}", written)


def script_json(value: object) -> Markup:
    """Return `value` as JSON that can stand inside a `<script>` element."""
    plain = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        plain = plain.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(plain)  # noqa: S704


def front_matter_text(value: str) -> Markup:
    """Return `value` as a YAML string whose content is HTML text, as the theme prints it."""
    return Markup(json.dumps(str(text(value))))  # noqa: S704


@dataclass(frozen=True)
class Column:
    """One column of a table on a page.

    A column of numbers has a unit of `write_number` and says what kind its numbers are: `kind` for
    all of them, or `kind_from`, another column of the same table that says it row by row. A count
    that is an axis or an extent (nodes, steps) is a label, not a result, and needs no kind.
    """

    name: str
    title: str
    unit: str | None = None
    kind: str | None = None
    kind_from: str | None = None
    yes: str = "yes"

    def __post_init__(self) -> None:
        if self.unit is not None and (self.kind is None) == (self.kind_from is None):
            raise ValueError(f"column {self.name}: numbers need either kind or kind_from")


@dataclass(frozen=True)
class Table:
    """A table on a page: heads and rows of markup; `numeric` tells which columns align right."""

    heads: Sequence[Markup]
    rows: Sequence[Sequence[Markup]]
    numeric: Sequence[bool]


def table(rows: pd.DataFrame, columns: Sequence[Column]) -> Table:
    """Return `rows` as a table with `columns`.

    Raises:
        ValueError: the column that says the kinds of another one is not shown.
    """
    shown = {column.name for column in columns}
    for column in columns:
        if column.kind_from is not None and column.kind_from not in shown:
            raise ValueError(f"column {column.name}: {column.kind_from} must be shown beside it")
    return Table(
        heads=[_head(column) for column in columns],
        rows=[[_cell(row, column) for column in columns] for row in rows.to_dict("records")],
        numeric=[
            column.unit is not None
            or (pd.api.types.is_numeric_dtype(rows[column.name]) and not _is_bool(rows, column))
            for column in columns
        ],
    )


def data_table(rows: pd.DataFrame) -> Table:
    """Return the data of a chart as a table, each column under its own name."""
    columns = [Column(str(name), str(name)) for name in rows.columns]
    return table(rows.map(_four_digits), columns)


def _four_digits(value: Any) -> Any:
    return f"{value:,.4g}" if isinstance(value, float) and not pd.isna(value) else value


def _is_bool(rows: pd.DataFrame, column: Column) -> bool:
    return bool(pd.api.types.is_bool_dtype(rows[column.name]))


def _head(column: Column) -> Markup:
    title = text(column.title)
    return Markup("{} {}").format(title, badge(column.kind)) if column.kind else title


def _cell(row: Mapping[Any, Any], column: Column) -> Markup:
    value = row[column.name]
    if column.unit is not None:
        return _data(value, column.unit)
    if isinstance(value, bool):
        return text(column.yes if value else "")
    return Markup("–") if pd.isna(value) else text(value)

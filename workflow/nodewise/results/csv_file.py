"""Read CSV files of users, with one-line messages about errors in them."""

import csv
import difflib
import io
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nodewise.core.errors import UserError
from nodewise.core.schema import read_bytes

MOST_BYTES = 20_000_000
_HEADER_BYTES = 10_000
_CLOSE = 0.7  # similarity from which an unknown column counts as a misspelt one
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)

Lines = list[tuple[int, list[str]]]


@dataclass(frozen=True)
class Number:
    """The range of numbers that a column may hold."""

    least: float
    most: float
    whole: bool = False

    def read(self, text: str) -> float:
        """Parse a number.

        Raises:
            ValueError: the text is not a number, or the number is not allowed. The message says
                what is allowed.
        """
        if not _NUMBER.fullmatch(text) or not self.allows(float(text)):
            hint = "; write decimals with a point" if re.fullmatch(r"\d*,\d+", text) else ""
            raise ValueError(f"must be {self.allowed}, not {text[:40]!r}{hint}")
        return float(text)

    def allows(self, value: float) -> bool:
        """Return whether a number is in the range."""
        return self.least <= value <= self.most and (not self.whole or value == int(value))

    @property
    def allowed(self) -> str:
        """The range in words."""
        return f"a {'whole ' if self.whole else ''}number from {self.least:g} to {self.most:g}"


def read_header(path: Path) -> set[str]:
    """Return the column names in the first line of a file, taken as CSV."""
    with path.open("rb") as file:
        start = file.read(_HEADER_BYTES).decode("utf-8-sig", errors="replace")
    header = re.split("[,;\t]", _first_line(start))
    return {name.strip(' "\r') for name in header}


def read_table(path: Path, *, ragged: bool = False) -> tuple[list[str], Lines]:
    """Read a CSV file: the names of its columns, and its rows as (line number, values).

    The line number is that of the last line of the row.

    Args:
        path: the file.
        ragged: whether rows may be blank, or have fewer or more values than there are columns, and
            whether there may be no rows.

    Raises:
        UserError: the file is not CSV, names a column twice, or has no rows.
    """
    try:
        text = read_bytes(path, MOST_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: is not UTF-8 text (byte {error.start + 1})") from None
    (_, header), *rows = _split(path, text, ragged)
    while header and not header[-1]:
        header.pop()  # spreadsheets leave empty columns at the end
    twice = [name for name in header if header.count(name) > 1]
    if twice:
        raise UserError(f"{path}: row 1: column {shown(twice[0])} appears twice")
    if ragged:
        return header, rows
    if not rows:
        raise UserError(f"{path}: has no rows below its header")
    for number, values in rows:
        if len(values) < len(header) or any(values[len(header) :]):
            raise UserError(
                f"{path}: row {number}: has {len(values)} values for {len(header)} columns"
            )
    return header, rows


def read_records(
    path: Path, needed: Sequence[str], texts: Collection[str], numbers: Mapping[str, Number]
) -> list[dict[str, Any]]:
    """Return the values of known columns of each row, and its place as `location`.

    Empty values are left out. Columns that are not known are ignored.

    Raises:
        UserError: a `needed` column is missing or empty, or a number is not allowed. The message
            has the row, as an editor counts lines, and the column.
    """
    header, rows = read_table(path)
    unknown = [name.lower() for name in header if name not in {*texts, *numbers}]
    for name in needed:
        if name not in header:
            close = difflib.get_close_matches(name, unknown, 1, _CLOSE)
            hint = f"; is it {shown(close[0])}? Rename it" if close else ""
            raise UserError(
                f"{path}: row 1: lacks column {name}{hint}; must name {', '.join(needed)}"
            )
    records = []
    for number, values in rows:
        location = f"{path}: row {number}"
        record: dict[str, Any] = {"location": location}
        for name, text in zip(header, values, strict=False):
            if text and name in texts:
                record[name] = text
            elif text and name in numbers:
                try:
                    record[name] = numbers[name].read(text)
                except ValueError as error:
                    raise UserError(f"{location}, column {name}: {error}") from None
            elif not text and name in needed:
                raise UserError(f"{location}, column {name}: is empty")
        records.append(record)
    return records


def shown(name: str) -> str:
    """Return the name of a column for messages: quoted and shortened if it is not a plain word."""
    return name if re.fullmatch(r"\w{1,40}", name) else repr(name[:40])


def _first_line(text: str) -> str:
    return re.split("[\r\n]", text.lstrip("\r\n"), maxsplit=1)[0]


def _split(path: Path, text: str, ragged: bool) -> Lines:
    """Return the lines of a CSV file with any value, and their numbers; the first is the header."""
    first = _first_line(text)
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=first.count))
    rows = []
    try:
        for values in lines:
            stripped = [value.strip() for value in values]
            if any(stripped) or (ragged and len(stripped) > 1):
                rows.append((lines.line_num, stripped))
    except csv.Error as error:
        raise UserError(f"{path}: row {lines.line_num}: is not CSV ({error})") from None
    if not rows:
        raise UserError(f"{path}: is empty; its first row must name columns")
    return rows

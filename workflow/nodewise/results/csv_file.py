"""Read CSV files of users, with one-line messages about errors in them."""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nodewise.core.errors import UserError
from nodewise.core.schema import read_bytes
from nodewise.results.curves import TEXT_LENGTH

MOST_BYTES = 20_000_000
_HEADER_BYTES = 10_000
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)


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
        if not _NUMBER.fullmatch(text):
            hint = "; write decimals with a point" if re.fullmatch(r"\d*,\d+", text) else ""
            raise ValueError(f"must be {self.allowed}, not {text[:40]!r}{hint}")
        value = float(text)
        if not self.allows(value):
            raise ValueError(f"must be {self.allowed}, not {text[:40]}")
        return value

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


def read_table(
    path: Path, *, ragged: bool = False
) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Read a CSV file: the names of its columns, and its rows as (line number, values).

    The line number is that of the last line of the row.

    Args:
        path: the file.
        ragged: whether rows may be blank, or have fewer or more values than there are columns, and
            whether there may be no rows.

    Raises:
        UserError: the file is not CSV, names a column twice, or has no rows.
    """
    content = read_bytes(path, MOST_BYTES)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: is not UTF-8 text (byte {error.start + 1})") from None
    header, rows = _split(path, text, ragged)
    twice = [name for name in header if header.count(name) > 1]
    if twice:
        raise UserError(f"{path}: row 1: column {shown(twice[0])} appears twice")
    if not rows and not ragged:
        raise UserError(f"{path}: has no rows below its header")
    return header, rows


def read_text(location: str, text: str) -> str:
    """Return a text if it is one short line.

    Raises:
        UserError: the text is too long, or has characters that are not printable.
    """
    if len(text) > TEXT_LENGTH or not text.isprintable():
        raise UserError(f"{location}: must be one short line of text")
    return text


def _first_line(text: str) -> str:
    return re.split("[\r\n]", text.lstrip("\r\n"), maxsplit=1)[0]


def _split(path: Path, text: str, ragged: bool) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Split the text of a CSV file into column names and rows; see `read_table`."""
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
    (_, header), *rows = rows
    while header and not header[-1]:
        header.pop()  # spreadsheets leave empty columns at the end
    for number, values in rows:
        if not ragged and (len(values) < len(header) or any(values[len(header) :])):
            raise UserError(
                f"{path}: row {number}: has {len(values)} values for {len(header)} columns"
            )
    return header, rows


def shown(name: str) -> str:
    """Return the name of a column for messages: quoted and shortened if it is not a plain word."""
    return name if re.fullmatch(r"\w{1,40}", name) else repr(name[:40])


def given_values(
    location: str, header: Sequence[str], values: Sequence[str], needed: Sequence[str]
) -> dict[str, str]:
    """Return the non-empty values of a row, by column.

    Raises:
        UserError: one of the `needed` columns is empty.
    """
    given = {name: value for name, value in zip(header, values, strict=False) if value}
    for name in needed:
        if name not in given:
            raise UserError(f"{location}, column {name}: is empty")
    return given


def read_numbers(
    location: str, given: Mapping[str, str], columns: Mapping[str, Number]
) -> dict[str, float]:
    """Return the numbers of a row in those `columns` that have a value.

    Raises:
        UserError: a value is not a number, or is not allowed.
    """
    numbers = {}
    for name, column in columns.items():
        if name in given:
            try:
                numbers[name] = column.read(given[name])
            except ValueError as error:
                raise UserError(f"{location}, column {name}: {error}") from None
    return numbers

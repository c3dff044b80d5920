"""Read CSV files of users, with one-line messages about errors in them."""

import csv
import io
import re
from pathlib import Path

from nodewise.core.errors import UserError
from nodewise.core.schema import read_bytes, read_start

MOST_BYTES = 20_000_000
MOST_COLUMNS = 1_000
_HEADER_BYTES = 10_000

# Numbers with decimal commas, unless all may have thousands; and what must be rewritten then.
_CELL = r'(?<![^;\t\r\n"])[+-]?(?:%s)(?:[eE][+-]?\d+)?(?![^;\t\r\n"])'
_DECIMALS = re.compile(_CELL % r"(?![1-9]\d{,2}(?:,\d{3})+(?!\d))[\d.]*\d,\d+")
_LOCAL = re.compile(_CELL % r"(?:[1-9]\d{,2}(?:\.\d{3})+|\d+)(?:,\d+)?")

Lines = list[tuple[int, list[str]]]


def decode(content: bytes, errors: str = "replace") -> str:
    """Decode a text in UTF-8, or in UTF-16 as some programs of Windows write it."""
    marked = content[:2] in (b"\xff\xfe", b"\xfe\xff")
    return content.decode("utf-16" if marked else "utf-8-sig", errors)


def parse_number(text: str, least: float = 1e-12, most: float = 1e18) -> float:
    """Parse a number from `least` to `most`.

    Raises:
        ValueError: the text is not a number, or the number is not allowed.
    """
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not least <= value <= most:
        raise ValueError(f"must be a number from {least:g} to {most:g}, not {text[:40]!r}")
    return value


def read_header(path: Path) -> set[str]:
    """Return the column names in the first line of a file, taken as CSV."""
    first = _first_line(decode(read_start(path, _HEADER_BYTES)))
    return {name.strip(' "') for name in re.split("[,;\t]", first)}


def read_table(path: Path, *, ragged: bool = False) -> tuple[list[str], Lines]:
    """Read a CSV file: the names of its columns, and its rows as (line number, values).

    Values may be separated by commas, semicolons or tabs. Without separating commas, numbers may
    have decimal commas. The line number is that of the last line of the row, as in an editor.

    Args:
        path: the file.
        ragged: whether rows may be blank, or have fewer or more values than there are columns, and
            whether there may be no rows.

    Raises:
        UserError: the file is not CSV, has too many columns or one twice, or has no rows.
    """
    try:
        text = decode(read_bytes(path, MOST_BYTES), "strict")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: is not UTF-8 text (byte {error.start + 1})") from None
    delimiter = max(",;\t", key=_first_line(text).count)
    if delimiter != "," and _DECIMALS.search(text):
        text = _LOCAL.sub(lambda number: number[0].replace(".", "").replace(",", "."), text)
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True)
    rows = []
    try:
        for line in lines:
            values = [value.strip() for value in line]
            if any(values) or (ragged and len(values) > 1):
                rows.append((lines.line_num, values))
    except csv.Error as error:
        raise UserError(f"{path}: row {lines.line_num}: is not CSV ({error})") from None
    if not rows:
        raise UserError(f"{path}: is empty; its first row must name columns")
    (_, header), *rows = rows
    while header and not header[-1]:
        header.pop()  # spreadsheets leave empty columns at the end
    if len(header) > MOST_COLUMNS:
        raise UserError(f"{path}: has {len(header):,} columns, more than {MOST_COLUMNS:,}")
    if twice := [name for name in header if name and header.count(name) > 1]:
        raise UserError(f"{path}: row 1: column {twice[0][:40]!r} appears twice")
    if not ragged and not rows:
        raise UserError(f"{path}: has no rows below its header")
    for number, values in () if ragged else rows:
        if len(values) < len(header) or any(values[len(header) :]):
            above = "; is row 1 a title? It must name the columns" if len(header) == 1 else ""
            raise UserError(
                f"{path}: row {number}: has {len(values)} values for {len(header)} columns{above}"
            )
    return header, rows


def _first_line(text: str) -> str:
    return re.split("[\r\n]", text.lstrip("\r\n"), maxsplit=1)[0]

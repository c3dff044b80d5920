"""Curves that were measured elsewhere, from a CSV file: what it says, checked row by row.

A row is one measurement: a curve's name, on how many nodes, at which batch per worker, and how long
it took. Rows alike in these are repeats: their median is fitted, their spread is noise. A curve is
one model trained one way on one cluster, by any framework.
"""

import csv
import difflib
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from nodewise.core.errors import UserError
from nodewise.core.schema import read_bytes
from nodewise.results.curve_rows import PART_TIMES
from nodewise.results.curves import CLOCKS, MOST_NODES, TEXT_LENGTH
from nodewise.results.importers import IMPORTERS

NEEDED = ("curve", "nodes", "batch_per_worker")
MOST_BYTES = 20_000_000
_CLOSE = 0.8  # names so alike are one name, misspelt
_RECOGNISED = 3  # columns; who misspells one of the four that are needed is told which
_HEADER_BYTES = 10_000
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)


@dataclass(frozen=True)
class Number:
    """What a column of numbers may hold."""

    least: float
    most: float
    whole: bool = False

    def read(self, text: str) -> float:
        """Return the number.

        Raises:
            ValueError: it is none, or not allowed; the text says what is.
        """
        allowed = f"a {'whole ' if self.whole else ''}number from {self.least:g} to {self.most:g}"
        if not _NUMBER.fullmatch(text):
            hint = "; write decimals with a point" if re.fullmatch(r"\d*,\d+", text) else ""
            raise ValueError(f"must be {allowed}, not {text[:40]!r}{hint}")
        value = float(text)
        if not self.least <= value <= self.most or (self.whole and value != int(value)):
            raise ValueError(f"must be {allowed}, not {text[:40]}")
        return value


_TIME = Number(1e-9, 1e9)
_NUMBERS = {
    "nodes": Number(1, MOST_NODES, whole=True),
    "batch_per_worker": Number(1e-9, 1e15),
    "step_time_s": _TIME,
    "samples_per_s": Number(1e-9, 1e12),
    "epoch_time_s": _TIME,
    "steps_per_s": Number(1e-9, 1e9),
    "examples": Number(1, 1e12, whole=True),
    "payload_bytes": Number(1, 1e15),
    **dict.fromkeys(PART_TIMES, Number(0, 1e9)),
}
_TEXTS = ("curve", "collective", "cluster", "repeat")
COLUMNS = (
    *NEEDED,
    *CLOCKS,
    "examples",
    "payload_bytes",
    *PART_TIMES,
    "collective",
    "cluster",
    "repeat",
)
"""Every column that is read."""


class UserCsv:
    """A CSV file of measurements; commas, semicolons or tabs separate its columns.

    Columns, in any order:
        curve: a name. nodes, batch_per_worker: whole numbers.
        step_time_s, or samples_per_s (of all workers together), or epoch_time_s: at least one value
            in each row; of several the first in this order counts.
        examples: of an epoch, which makes seconds of a step out of epoch_time_s.
        payload_bytes: of one gradient. collective: the law of its step times, as `ring` or
            `averaging(period=8)`; if not given, which it was is left to the fit.
        cluster: curves with the same value share latency and bandwidth; without one, none do.
        compute_s, wait_s, communicate_s: parts of a step, where they were measured.
        repeat: anything; it is not needed to tell repeats.

    Empty values count as not given. Other columns are left alone, which a note says.
    """

    def sniff(self, path: Path) -> bool:
        """Return whether the first line names some of our columns."""
        return len(read_header(path) & set(COLUMNS)) >= _RECOGNISED

    def read(self, path: Path) -> pd.DataFrame:
        """Return the rows, with columns of `CURVE_ROWS`.

        Raises:
            UserError: something is wrong; the text names the row, as an editor counts, and the
                column.
        """
        header, rows = read_table(path)
        notes = _check_header(path, header)
        table = pd.DataFrame(
            [_read_row(f"{path}: row {number}", header, values) for number, values in rows]
        )
        table.attrs["notes"] = notes
        return table


IMPORTERS.add("csv", UserCsv())


def read_header(path: Path) -> set[str]:
    """Return the names in the first line of a file, if it is a CSV file."""
    with path.open("rb") as file:
        start = file.read(_HEADER_BYTES).decode("utf-8-sig", errors="replace")
    header = re.split("[,;\t]", start.lstrip("\r\n").partition("\n")[0])
    return {name.strip(' "\r') for name in header}


def read_table(
    path: Path, *, ragged: bool = False
) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Return the names of the columns, and the rows' values with the line that each ends on.

    Args:
        path: the file.
        ragged: whether rows may have fewer or more values than there are columns.

    Raises:
        UserError: the file is no CSV file, or has no rows.
    """
    content = read_bytes(path, MOST_BYTES)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: is not UTF-8 text (byte {error.start + 1})") from None
    header, rows = _split(path, text, ragged)
    twice = [name for name in header if header.count(name) > 1]
    if twice:
        raise UserError(f"{path}: row 1: column {_shown(twice[0])} appears twice")
    if not rows:
        raise UserError(f"{path}: has no rows below its header")
    return header, rows


def read_text(location: str, text: str) -> str:
    """Return a text of one short line.

    Raises:
        UserError: it is longer, or has characters that cannot be shown.
    """
    if len(text) > TEXT_LENGTH or not text.isprintable():
        raise UserError(f"{location}: must be one short line of text")
    return text


def _split(path: Path, text: str, ragged: bool) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Return the names of the columns, and the rows' values with the line that each ends on."""
    first = text.lstrip("\r\n").partition("\n")[0]
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=first.count))
    rows = []
    try:
        for values in lines:
            stripped = [value.strip() for value in values]
            if any(stripped):
                rows.append((lines.line_num, stripped))
    except csv.Error as error:
        raise UserError(f"{path}: row {lines.line_num}: is not CSV ({error})") from None
    if not rows:
        raise UserError(f"{path}: is empty; its first row must name columns")
    (_, header), *rows = rows
    while header and not header[-1]:
        header.pop()  # as spreadsheets leave them
    for number, values in rows:
        if not ragged and (len(values) < len(header) or any(values[len(header) :])):
            raise UserError(
                f"{path}: row {number}: has {len(values)} values for {len(header)} columns"
            )
    return header, rows


def _expected() -> str:
    return f"{', '.join(NEEDED)} and one of {', '.join(CLOCKS)}"


def _check_header(path: Path, header: Sequence[str]) -> tuple[str, ...]:
    """Return what is to be said of columns that are not read."""
    unknown = [name for name in header if name not in COLUMNS]
    for name in unknown:
        close = difflib.get_close_matches(name.lower(), set(COLUMNS) - set(header), 1, _CLOSE)
        if close:
            raise UserError(
                f"{path}: row 1: column {_shown(name)} is not known; is it {close[0]}? "
                "Rename it, or remove it"
            )
    if not set(NEEDED) <= set(header) or not set(CLOCKS) & set(header):
        names = ", ".join(map(_shown, header[:12]))
        raise UserError(f"{path}: row 1: must name columns {_expected()}; it names {names}")
    return (f"columns not used: {', '.join(map(_shown, unknown))}",) if unknown else ()


def _shown(name: str) -> str:
    return name if re.fullmatch(r"\w{1,40}", name) else repr(name[:40])


def given_values(
    location: str, header: Sequence[str], values: Sequence[str], needed: Sequence[str]
) -> dict[str, str]:
    """Return the values of a row that are not empty, by column.

    Raises:
        UserError: one of the columns that are needed is empty.
    """
    given = {name: value for name, value in zip(header, values, strict=False) if value}
    for name in needed:
        if name not in given:
            raise UserError(f"{location}, column {name}: is empty")
    return given


def read_numbers(
    location: str, given: Mapping[str, str], columns: Mapping[str, Number]
) -> dict[str, float]:
    """Return the numbers of a row, of those `columns` that are given.

    Raises:
        UserError: one is no such number.
    """
    numbers = {}
    for name, column in columns.items():
        if name in given:
            try:
                numbers[name] = column.read(given[name])
            except ValueError as error:
                raise UserError(f"{location}, column {name}: {error}") from None
    return numbers


def _read_row(location: str, header: Sequence[str], values: Sequence[str]) -> dict[str, Any]:
    given = given_values(location, header, values, NEEDED)
    if not any(clock in given for clock in CLOCKS):
        there = [clock for clock in CLOCKS if clock in header]
        raise UserError(f"{location}, column {there[0]}: is empty")
    texts: dict[str, str] = {name: given[name] for name in _TEXTS if name in given}
    for name, text in texts.items():
        read_text(f"{location}, column {name}", text)
    numbers = read_numbers(location, given, _NUMBERS)
    if "collective" in texts:
        texts["collective"] = _collective(texts["collective"])
    return {"location": location} | texts | numbers


def _collective(text: str) -> str:
    """Return the name of a law for what people write: `Ring all-reduce`, `tree_allreduce`."""
    name, bracket, settings = text.lower().partition("(")
    name = re.sub(r"\W+", "_", name.strip())
    return re.sub(r"_?all_?reduce$", "", name) + bracket + settings

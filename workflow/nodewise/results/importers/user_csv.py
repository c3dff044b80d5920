"""Curves that were measured elsewhere, from a CSV file: what it says, checked row by row.

A row is one measurement: a curve's name, on how many nodes, at which batch per worker, and how long
it took. Rows alike in these are repeats: their median is fitted, their spread is noise. A curve is
one model trained one way on one cluster, by any framework.
"""

import difflib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from nodewise.core.errors import UserError
from nodewise.results.csv_file import (
    Number,
    given_values,
    read_header,
    read_numbers,
    read_table,
    read_text,
    shown,
)
from nodewise.results.curve_rows import PART_TIMES
from nodewise.results.curves import CLOCKS, MOST_NODES
from nodewise.results.importers import IMPORTERS

NEEDED = ("curve", "nodes", "batch_per_worker")
_CLOSE = 0.8  # names so alike are one name, misspelt
_RECOGNISED = 3  # columns; who misspells one of the four that are needed is told which

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


def _check_header(path: Path, header: Sequence[str]) -> tuple[str, ...]:
    """Return what is to be said of columns that are not read."""
    unknown = [name for name in header if name not in COLUMNS]
    for name in unknown:
        close = difflib.get_close_matches(name.lower(), set(COLUMNS) - set(header), 1, _CLOSE)
        if close:
            raise UserError(
                f"{path}: row 1: column {shown(name)} is not known; is it {close[0]}? "
                "Rename it, or remove it"
            )
    if not set(NEEDED) <= set(header) or not set(CLOCKS) & set(header):
        names = ", ".join(map(shown, header[:12]))
        raise UserError(
            f"{path}: row 1: must name columns {', '.join(NEEDED)} and one of {', '.join(CLOCKS)}; "
            f"it names {names}"
        )
    return (f"columns not used: {', '.join(map(shown, unknown))}",) if unknown else ()


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

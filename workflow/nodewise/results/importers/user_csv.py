"""Import curves from a CSV file of a user, with checks of every row.

A row is one measurement: the name of the curve, the number of nodes, the batch per worker, and the
time. Rows with equal curve, nodes and batch are repeats: their median is fitted, and their spread
is the noise. A curve is one model trained with one strategy on one cluster, by any framework.
"""

import difflib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from nodewise.core.errors import UserError
from nodewise.results.csv_file import (
    given_values,
    read_header,
    read_numbers,
    read_table,
    read_text,
    shown,
)
from nodewise.results.curve_rows import NUMBERS, PART_TIMES
from nodewise.results.curves import CLOCKS
from nodewise.results.importers import IMPORTERS

NEEDED = ("curve", "nodes", "batch_per_worker")
_CLOSE = 0.8  # similarity from which an unknown column counts as misspelt
_RECOGNISED = 3  # of the 4 required columns, so that a message can name a misspelt one

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
"""All columns that are read."""


class UserCsv:
    """Importer of CSV files of measurements.

    Columns are separated by commas, semicolons or tabs, and may be in any order:
        curve: name of the curve.
        nodes: number of nodes, whole.
        batch_per_worker: examples per worker and step.
        step_time_s, samples_per_s (of all workers together), epoch_time_s, steps_per_s: each row
            needs at least one of them. If it has several, the first in this order is used.
        examples: examples of an epoch, to convert epoch_time_s to seconds of a step.
        payload_bytes: size of one gradient.
        collective: law of the step times, such as `ring` or `averaging(period=8)`. If not given,
            the fit chooses one.
        cluster: curves of one cluster share latency and bandwidth. Without it, they share nothing.
        compute_s, wait_s, communicate_s: measured parts of a step.
        repeat: any text; repeats are recognised without it.

    Empty values count as not given. Other columns are ignored, and a note says so.
    """

    def sniff(self, path: Path) -> bool:
        """Return whether the first line names at least three of the columns."""
        return len(read_header(path) & set(COLUMNS)) >= _RECOGNISED

    def read(self, path: Path) -> pd.DataFrame:
        """Return the rows, with columns of `CURVE_ROWS`.

        Raises:
            UserError: the file is invalid. The message names the column, and the row as an editor
                counts lines.
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
    """Check the column names, and return notes on columns that are not used.

    Raises:
        UserError: a required column is missing, or a column seems to be misspelt.
    """
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
    numbers = read_numbers(location, given, NUMBERS)
    if "collective" in texts:
        texts["collective"] = _collective(texts["collective"])
    return {"location": location} | texts | numbers


def _collective(text: str) -> str:
    """Return the law's name for a collective: `ring` for `Ring all-reduce` or `ring_allreduce`."""
    name, bracket, settings = text.lower().partition("(")
    name = re.sub(r"\W+", "_", name.strip())
    return re.sub(r"_?all_?reduce$", "", name) + bracket + settings

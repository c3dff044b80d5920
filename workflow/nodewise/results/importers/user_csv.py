"""Import curves from a CSV file of a user.

A row is one measurement: the name of the curve, the number of nodes, the batch per worker, and the
time. Rows with equal curve, nodes and batch are repeats: their median is fitted, and their spread
is the noise. A curve is one model trained with one strategy on one cluster, by any framework.
"""

import difflib
import re
from pathlib import Path

import pandas as pd

from nodewise.core.errors import UserError
from nodewise.results.csv_file import read_header, read_records, read_table, shown
from nodewise.results.curve_rows import NUMBERS
from nodewise.results.curves import CLOCKS
from nodewise.results.importers import IMPORTERS

NEEDED = ("curve", "nodes", "batch_per_worker")
_CLOSE = 0.8  # similarity from which an unknown column counts as misspelt
_RECOGNISED = 3  # of the 4 required columns, so that a message can name a misspelt one
_TEXTS = ("curve", "collective", "cluster", "repeat")
COLUMNS = ("curve", *NUMBERS, *_TEXTS[1:])
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
        header, _ = read_table(path)
        unknown = [name for name in header if name not in COLUMNS]
        for name in unknown:
            close = difflib.get_close_matches(name.lower(), set(COLUMNS) - set(header), 1, _CLOSE)
            if close:
                raise UserError(
                    f"{path}: row 1: column {shown(name)} is not known; is it {close[0]}? "
                    "Rename it, or remove it"
                )
        if not set(NEEDED) <= set(header) or not set(CLOCKS) & set(header):
            raise UserError(
                f"{path}: row 1: must name columns {', '.join(NEEDED)} and one of "
                f"{', '.join(CLOCKS)}; it names {', '.join(map(shown, header[:12]))}"
            )
        table = pd.DataFrame(read_records(path, NEEDED, _TEXTS, NUMBERS))
        if "collective" in table:
            table["collective"] = table["collective"].map(_collective, na_action="ignore")
        if unknown:
            table.attrs["notes"] = [f"columns not used: {', '.join(map(shown, unknown))}"]
        return table


IMPORTERS.add("csv", UserCsv())


def _collective(text: str) -> str:
    """Return the law's name for a collective: `ring` for `Ring all-reduce` or `ring_allreduce`."""
    name, bracket, settings = text.lower().partition("(")
    name = re.sub(r"\W+", "_", name.strip())
    return re.sub(r"_?all_?reduce$", "", name) + bracket + settings

"""Convert logs of single runs to one table of curves. Missing values must be given as options."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from nodewise.core.errors import UserError
from nodewise.results.curve_rows import CURVE_ROWS
from nodewise.results.importers import read_rows

_FIELDS = {"curve": r".+?", "devices": r"\d+", "batch": r"\d+", "global_batch": r"\d+"}
_COLUMNS = {"devices": "nodes", "batch": "batch_per_worker"}
_INTERNAL = ("location", "unit", "unit_value", "scaling", "hosts", "devices_per_host")
_MISSING = {
    "nodes": "on how many devices it ran: give --devices, or --name with {devices}",
    "batch_per_worker": "the batch: give --batch (per device), --global-batch, or --name with "
    "{batch}",
}


@dataclass(frozen=True)
class Defaults:
    """Values that `nodewise import` uses for files that do not contain them."""

    curve: str | None = None
    devices: int | None = None
    batch: float | None = None
    global_batch: float | None = None
    pattern: str | None = None

    def values(self, path: Path) -> dict[str, str | float]:
        """Return the default values for a file, by column.

        Raises:
            UserError: the name of the file does not match the pattern.
        """
        names = ("curve", "devices", "batch", "global_batch")
        values = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        if self.pattern is not None:
            match = _pattern(self.pattern).fullmatch(path.name)
            if match is None:
                raise UserError(f"{path}: its name is not like --name {self.pattern}")
            of_name = match.groupdict()
            values |= {n: text if n == "curve" else int(text) for n, text in of_name.items()}
        return {_COLUMNS.get(name, name): value for name, value in values.items()}


def convert(
    paths: Sequence[Path], defaults: Defaults, file_format: str | None = None
) -> pd.DataFrame:
    """Return the rows of all files, with columns that `importers.user_csv` reads.

    `attrs["notes"]` of the table says what is doubtful.

    Raises:
        UserError: a file is invalid, or a value is neither in the file nor given.
    """
    files = [_rows(path, defaults, file_format) for path in paths]
    rows = pd.concat(files, ignore_index=True)
    columns = [name for name in CURVE_ROWS if name in rows and name not in _INTERNAL]
    table = rows[columns].dropna(axis="columns", how="all")
    notes = dict.fromkeys(note for file in files for note in file.attrs.get("notes", ()))
    table.attrs["notes"] = list(notes)
    return table


def _rows(path: Path, defaults: Defaults, file_format: str | None) -> pd.DataFrame:
    rows = read_rows(path, file_format)
    batches = {"batch_per_worker", "global_batch"}
    columns = set(rows) | (batches if batches & set(rows) else set())
    for name, value in defaults.values(path).items():
        if name not in columns:
            rows[name] = value
    if "curve" not in rows:
        rows["curve"] = path.resolve().parent.name or "runs"
    if "nodes" not in rows:
        raise UserError(f"{path}: does not say {_MISSING['nodes']}")
    if "global_batch" in rows:
        each = rows.pop("global_batch") / rows["nodes"]
        rows["batch_per_worker"] = rows.get("batch_per_worker", each)
    if "batch_per_worker" not in rows:
        raise UserError(f"{path}: does not say {_MISSING['batch_per_worker']}")
    return rows


def _pattern(text: str) -> re.Pattern[str]:
    parts = re.split(r"(\{\w+\}|\*)", text)
    names = [part[1:-1] for part in parts if part.startswith("{")]
    unknown = [name for name in names if name not in _FIELDS]
    if unknown or len(set(names)) < len(names):
        allowed = ", ".join(f"{{{name}}}" for name in _FIELDS)
        raise UserError(f"--name {text[:60]}: may hold each of {allowed} once")
    made = (
        f"(?P<{part[1:-1]}>{_FIELDS[part[1:-1]]})"
        if part.startswith("{")
        else ".*"
        if part == "*"
        else re.escape(part)
        for part in parts
    )
    return re.compile("".join(made))

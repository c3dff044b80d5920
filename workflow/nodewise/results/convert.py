"""Convert logs of single runs to one table of curves. Missing values must be given as options."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from nodewise.core.errors import UserError
from nodewise.results.curve_rows import CurveRow, check_rows
from nodewise.results.importers import IMPORTERS, read_rows
from nodewise.results.importers.curve_csv import COLUMNS
from nodewise.results.log_format import FIELDS, PER_DEVICE, LogFormat, pattern_of_user

_FIELDS = {"curve": r".+?", "devices": r"\d+", "batch": r"\d+", "global_batch": r"\d+"}
_EXACT = 0.01  # of a global batch: some logs say it only by rates that are rounded


@dataclass(frozen=True)
class Defaults:
    """Values of options of `nodewise import`, for files that do not contain them.

    `name` is a pattern of the names of files and their folders. `pattern` is one of lines of logs.
    """

    curve: str | None = None
    devices: int | None = None
    batch: float | None = None
    global_batch: float | None = None
    name: str | None = None
    pattern: str | None = None

    def values(self, path: Path) -> dict[str, Any]:
        """Return the values for a file, by the names of `{fields}`. Options precede its name.

        Raises:
            UserError: the name of the file does not match `name`.
        """
        given = {name: getattr(self, name) for name in _FIELDS}
        return self._of_name(path) | {k: value for k, value in given.items() if value is not None}

    def curve_of(self, path: Path) -> str:
        """Return the folder of a file: the name of its curve if nothing says it.

        It is above the folders that `name` contains, as these differ between runs of a curve.
        """
        return path.absolute().parents[(self.name or "").count("/")].name or "runs"

    def _of_name(self, path: Path) -> dict[str, Any]:
        if self.name is None:
            return {}
        end = "/".join(path.absolute().parts[-self.name.count("/") - 1 :])
        match = _pattern_of_names(self.name).fullmatch(end)
        if match is None:
            raise UserError(f"{path}: its name is not like --name {self.name}")
        return {n: text if n == "curve" else int(text) for n, text in match.groupdict().items()}


def _pattern_of_names(text: str) -> re.Pattern[str]:
    fields = re.findall(r"\{(\w+)\}", text)
    if not set(fields) <= set(_FIELDS) or len(set(fields)) < len(fields):
        allowed = ", ".join(f"{{{name}}}" for name in _FIELDS)
        raise UserError(f"--name {text[:60]}: may hold each of {allowed} once")
    made = re.escape(text).replace(r"\*", ".*")
    for name in fields:
        made = made.replace(rf"\{{{name}\}}", f"(?P<{name}>{_FIELDS[name]})")
    return re.compile(made)


def check_output(out: Path, paths: Sequence[Path]) -> None:
    """Check that the table to write replaces no log: `-o run_*.log` names one by mistake.

    Raises:
        UserError: `out` is one of the files to read, or exists and is not a table.
    """
    if out.exists() and any(path.exists() and path.samefile(out) for path in paths):
        raise UserError(f"{out}: --out is one of the files to import; name another file")
    if out.is_file() and out.stat().st_size and not IMPORTERS["csv"].sniff(out):
        raise UserError(f"{out}: --out exists and is not a table of curves; name another file")


def convert(
    paths: Sequence[Path], defaults: Defaults, file_format: str | None = None
) -> pd.DataFrame:
    """Return the rows of all files, with columns that `importers.curve_csv` reads.

    `attrs["notes"]` of the table says what is doubtful.

    Raises:
        UserError: a file is invalid or contradicts the options, or a value is neither in the file
            nor given.
    """
    own = None if defaults.pattern is None else pattern_of_user(defaults.pattern)
    files = [_rows(path, defaults, file_format, own) for path in paths]
    rows = pd.concat(files, ignore_index=True)
    names = [name for name in CurveRow.model_fields if name in rows and name in COLUMNS]
    table = rows[names].dropna(axis="columns", how="all")
    notes = dict.fromkeys(note for file in files for note in file.attrs.get("notes", ()))
    table.attrs["notes"] = list(notes)
    return table


def _rows(
    path: Path, defaults: Defaults, file_format: str | None, own: LogFormat | None
) -> pd.DataFrame:
    rows = read_rows(path, file_format) if own is None else own.read(path)
    if "unit" in rows:
        raise UserError(f"{path}: is a table that `nodewise fit` reads itself; import takes logs")
    for name, value in defaults.values(path).items():
        _add(path, rows, name, value)
    if "curve" not in rows:
        rows["curve"] = defaults.curve_of(path)
    if "nodes" not in rows:
        raise UserError(
            f"{path}: does not say on how many devices it ran: give --devices, or --name with "
            "{devices}"
        )
    if PER_DEVICE in rows:
        rows["samples_per_s"] = rows.pop(PER_DEVICE) * rows["nodes"]
    check_rows(rows, path)
    if "global_batch" in rows:
        _divide_batch(path, rows)
    if "batch_per_worker" not in rows:
        raise UserError(
            f"{path}: does not say the batch: give --batch (per device), --global-batch, or --name "
            "with {batch}"
        )
    return rows.astype({"nodes": int})


def _add(path: Path, rows: pd.DataFrame, name: str, value: Any) -> None:  # noqa: ANN401
    """Add the value of an option to the rows of a file. A curve may get another name.

    Raises:
        UserError: the file says otherwise, or has several curves, or the value is not positive.
    """
    column, _ = FIELDS[name]
    option = f"--{name.replace('_', '-')} {value}"
    if name == "curve":
        if column in rows and rows[column].nunique() > 1:
            raise UserError(f"{path}: has {rows[column].nunique()} curves; leave out --curve")
    elif not value > 0:
        raise UserError(f"{path}: {option} is not allowed, must be more than 0")
    elif column in rows:
        rounded = _EXACT if name == "global_batch" else 0.0
        for other in rows.loc[(rows[column] / value - 1).abs() > rounded, column]:
            raise UserError(f"{path}: {name} is {other:g} in the log, but {option} was given")
    rows[column] = value


def _divide_batch(path: Path, rows: pd.DataFrame) -> None:
    """Replace the global batch of the rows by the batch per device.

    Raises:
        UserError: the rows have a batch per device, and it is another one.
    """
    whole, nodes = rows.pop("global_batch"), rows["nodes"]
    each = rows.get("batch_per_worker", whole / nodes)
    for at in rows.index[(each * nodes / whole - 1).abs() > _EXACT]:
        raise UserError(
            f"{path}: a batch of {each[at]:g} on each of {nodes[at]:g} devices is not the global "
            f"batch {whole[at]:g}"
        )
    rows["batch_per_worker"] = each

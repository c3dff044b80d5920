"""Convert logs of single runs to one table of curves. Missing values must be given as options."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from nodewise.core.errors import UserError
from nodewise.results.curve_rows import CurveRow, check_rows
from nodewise.results.importers import IMPORTERS, read_rows
from nodewise.results.importers.curve_csv import COLUMNS
from nodewise.results.log_format import FIELDS, pattern_of_user

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
    if defaults.pattern is not None and file_format is not None:
        raise UserError("--pattern and --format: give one of them")
    own = None if defaults.pattern is None else pattern_of_user(defaults.pattern)
    rows: list[CurveRow] = []
    notes: dict[str, None] = {}
    for path in paths:
        read = read_rows(path, file_format) if own is None else own.read(path)
        rows += _with_options(path, read, defaults)
        notes |= dict.fromkeys(read.attrs.get("notes", ()))
    table = pd.DataFrame([row.model_dump(exclude_defaults=True) for row in rows])
    table = table[[name for name in CurveRow.model_fields if name in table and name in COLUMNS]]
    table.attrs["notes"] = [*notes]
    return table


def _with_options(path: Path, rows: pd.DataFrame, defaults: Defaults) -> list[CurveRow]:
    """Return the rows of a file with the values of the options.

    Raises:
        UserError: a value is wrong, contradicts an option, or is neither in the file nor given.
    """
    if "unit" in rows:
        raise UserError(f"{path}: is a table that `nodewise fit` reads itself; import takes logs")
    given = defaults.values(path)
    for name, value in given.items():
        if name != "curve" and not value > 0:
            raise UserError(f"{path}: {_option(name, value)} is not allowed, must be more than 0")
    if "curve" in given and "curve" in rows and rows["curve"].nunique() > 1:
        raise UserError(f"{path}: has {rows['curve'].nunique()} curves; leave out --curve")
    columns = {FIELDS[name][0]: value for name, value in given.items()}
    if "curve" not in rows:
        columns.setdefault("curve", defaults.curve_of(path))
    known = rows.reindex(columns=[*columns]).astype(object)
    rows = rows.assign(**known.fillna(columns))
    if "nodes" not in rows:
        raise UserError(
            f"{path}: does not say on how many devices it ran: give --devices, or --name with "
            "{devices}"
        )
    if not {"batch_per_worker", "global_batch"} & set(rows):
        raise UserError(
            f"{path}: does not say the batch: give --batch (per device), --global-batch, or --name "
            "with {batch}"
        )
    return [_agreeing(path, row, given) for row in check_rows(rows, path)]


def _agreeing(path: Path, row: CurveRow, given: Mapping[str, Any]) -> CurveRow:
    """Return a row with the batch per device, and the name of the curve that is given.

    Raises:
        UserError: the row contradicts an option, or its batches contradict each other.
    """
    for name, value in given.items():
        read, rounded = getattr(row, FIELDS[name][0]), _EXACT if name == "global_batch" else 0.0
        if name != "curve" and abs(read / value - 1) > rounded:
            raise UserError(
                f"{path}: {name} is {read:g} in the log, but {_option(name, value)} was given"
            )
    batch, whole = row.batch, row.global_batch
    if batch and whole and abs(batch * row.nodes / whole - 1) > _EXACT:
        raise UserError(
            f"{path}: a batch of {batch:g} on each of {row.nodes:g} devices is not the global "
            f"batch {whole:g}"
        )
    update = {"batch_per_worker": batch, "global_batch": None}
    return row.model_copy(update=update | {n: v for n, v in given.items() if n == "curve"})


def _option(name: str, value: object) -> str:
    return f"--{name.replace('_', '-')} {value}"

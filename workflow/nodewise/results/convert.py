"""Convert logs of single runs to one table of curves. Missing values must be given as options."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from nodewise.core.errors import UserError
from nodewise.results.csv_file import Number
from nodewise.results.curve_rows import NUMBERS, check_rows
from nodewise.results.importers import IMPORTERS, read_rows
from nodewise.results.importers.user_csv import COLUMNS

_FIELDS = {"curve": r".+?", "devices": r"\d+", "batch": r"\d+", "global_batch": r"\d+"}
_COLUMNS = {"devices": "nodes", "batch": "batch_per_worker"}
_ALLOWED = {"devices": NUMBERS["nodes"], "batch": Number(1, 1e9), "global_batch": Number(1, 1e12)}
_EXACT = 0.01  # of a global batch: some logs say it only by rates that are rounded
_MISSING = {
    "nodes": "on how many devices it ran: give --devices, or --name with {devices}",
    "batch_per_worker": "the batch: give --batch (per device), --global-batch, or --name with "
    "{batch}",
}


@dataclass(frozen=True)
class Defaults:
    """Values of options of `nodewise import`, for files that do not contain them."""

    curve: str | None = None
    devices: int | None = None
    batch: float | None = None
    global_batch: float | None = None
    pattern: str | None = None

    def values(self, path: Path) -> dict[str, str | float]:
        """Return the values for a file, by the names of `{fields}` in a pattern.

        Raises:
            UserError: the name of the file does not match the pattern, contradicts an option, or a
                value is not allowed.
        """
        options = {name: getattr(self, name) for name in _FIELDS}
        values = {name: value for name, value in options.items() if value is not None}
        for name, value in self._of_name(path).items():
            if values.setdefault(name, value) != value:
                option = f"--{_dashed(name)} {_shown(values[name])}"
                raise UserError(f"{path}: its name says {name} {value}, but {option} was given")
        for name, allowed in _ALLOWED.items():
            if name in values and not allowed.allows(values[name]):
                shown = f"--{_dashed(name)} or --name"
                raise UserError(f"{path}: {shown} must be {allowed.allowed}, not {values[name]:g}")
        return values

    def curve_of(self, path: Path) -> str:
        """Return the folder of a file: the name of its curve if nothing says it.

        It is above the folders that the pattern names, as these differ between runs of a curve.
        """
        return [*path.absolute().parents][: self._folders + 1][-1].name or "runs"

    @property
    def _folders(self) -> int:
        return (self.pattern or "").count("/")

    def _of_name(self, path: Path) -> dict[str, str | int]:
        if self.pattern is None:
            return {}
        end = "/".join(str(path.absolute()).split("/")[-self._folders - 1 :])
        match = _pattern(self.pattern).fullmatch(end)
        if match is None:
            raise UserError(f"{path}: its name is not like --name {self.pattern}")
        return {n: text if n == "curve" else int(text) for n, text in match.groupdict().items()}


def check_output(out: Path, paths: Sequence[Path]) -> None:
    """Check that the table to write replaces no log: `-o run_*.log` names one by mistake.

    Raises:
        UserError: `out` is one of the files to read, or exists and is not a table.
    """
    if any(path.exists() and out.exists() and path.samefile(out) for path in paths):
        raise UserError(f"{out}: --out is one of the files to import; name another file")
    if out.is_file() and out.stat().st_size and not IMPORTERS["csv"].sniff(out):
        raise UserError(f"{out}: --out exists and is not a table of curves; name another file")


def convert(
    paths: Sequence[Path], defaults: Defaults, file_format: str | None = None
) -> pd.DataFrame:
    """Return the rows of all files, with columns that `importers.user_csv` reads.

    `attrs["notes"]` of the table says what is doubtful.

    Raises:
        UserError: a file is invalid or contradicts the options, or a value is neither in the file
            nor given.
    """
    files = [_rows(path, defaults, file_format) for path in paths]
    rows = pd.concat(files, ignore_index=True)
    columns = [name for name in COLUMNS if name in rows]
    table = rows[columns].dropna(axis="columns", how="all")
    notes = dict.fromkeys(note for file in files for note in file.attrs.get("notes", ()))
    table.attrs["notes"] = list(notes)
    return table


def _rows(path: Path, defaults: Defaults, file_format: str | None) -> pd.DataFrame:
    rows = read_rows(path, file_format)
    if set(rows) - {*COLUMNS, "global_batch", "location"}:
        raise UserError(f"{path}: is a table that `nodewise fit` reads itself; import takes logs")
    for name, value in defaults.values(path).items():
        column = _COLUMNS.get(name, name)
        if column in rows:
            _check_given(path, name, rows[column], value)
        rows[column] = value
    if "curve" not in rows:
        rows["curve"] = defaults.curve_of(path)
    if "nodes" not in rows:
        raise UserError(f"{path}: does not say {_MISSING['nodes']}")
    if "global_batch" in rows:
        _divide_batch(path, rows)
    if "batch_per_worker" not in rows:
        raise UserError(f"{path}: does not say {_MISSING['batch_per_worker']}")
    check_rows(rows, path)
    return rows.astype({"nodes": int})


def _check_given(path: Path, name: str, said: pd.Series, given: str | float) -> None:
    """Check what is given for a file that says it, too. Its curve may get another name.

    Raises:
        UserError: the file says otherwise, or has several curves.
    """
    if isinstance(given, str):
        if said.nunique() > 1:
            raise UserError(f"{path}: has {said.nunique()} curves; leave out --curve")
        return
    rounded = _EXACT if name == "global_batch" else 0.0
    for value in said[(said / given - 1).abs() > rounded]:
        raise UserError(
            f"{path}: {name} is {value:g} in the log, but {given:g} by --{_dashed(name)} or --name"
        )


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


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def _shown(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:g}"

"""Convert logs of single runs to one table of curves. Missing values must be given as options."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from nodewise.core.errors import UserError
from nodewise.core.files import check_writable
from nodewise.results.curves import CurveRow, check_rows
from nodewise.results.importers import IMPORTERS, read_rows
from nodewise.results.importers.curve_csv import COLUMNS
from nodewise.results.log_format import FIELDS, LogFormat

_FIELDS = {"curve": r".+?", "devices": r"\d+", "batch": r"\d+", "global_batch": r"\d+"}
_MOST_STARS = 3  # more could take hours to match a long name
_EXACT = 0.01  # of a global batch: some logs say it only by rates that are rounded
_RATES = ("samples_per_s", "samples_per_s_per_device")  # which are known without a batch
_NEEDED = {
    "on how many devices it ran": {"nodes"},
    "the batch": {"batch_per_worker", "global_batch", *_RATES},
}
_ADVICE = (
    "give --devices, or --name with {devices}",
    "give --batch (per device), --global-batch, or --name with {batch}",
)


def check_output(out: Path, paths: Sequence[Path]) -> None:
    """Check that the table can be written and replaces no log: `-o run_*.log` names one by mistake.

    Raises:
        UserError: `out` is one of the files to read, or exists and is not a table.
        OSError: it cannot be written.
    """
    check_writable(out)
    if out.is_file() and out.stat().st_size:
        read = out.resolve() in map(Path.resolve, paths)
        if read or not IMPORTERS["csv"].sniff(out):
            kind = "to be imported" if read else "no table of curves"
            raise UserError(f"{out}: --out exists and is {kind}; name another file")


def convert(
    paths: Sequence[Path],
    options: Mapping[str, Any],
    *,
    name: str | None = None,
    pattern: str | None = None,
    file_format: str | None = None,
    advice: Sequence[str] = _ADVICE,
) -> pd.DataFrame:
    """Return the rows of all files, with columns that `importers.curve_csv` reads.

    `attrs["notes"]` of the table says what is doubtful.

    Args:
        paths: the files.
        options: values of `curve`, `devices`, `batch` and `global_batch`, for files that do not
            contain them; None if not given.
        name: pattern of the names of files and their folders, whose `{fields}` are named like the
            options. Options precede it.
        pattern: regular expression of the results in a log, in place of a format.
        file_format: format of the files. By default it is recognised.
        advice: how to give the number of devices, and the batch, where a file does not.

    Raises:
        UserError: a file is invalid or contradicts the options, or a value is neither in the file
            nor given.
    """
    if pattern is not None and file_format is not None:
        raise UserError("--pattern and --format: give one of them")
    own = None if pattern is None else pattern_of_user(pattern)
    tables: list[pd.DataFrame] = []
    notes: dict[str, None] = {}
    for path in paths:
        found = read_rows(path, file_format) if own is None else own.read(path)
        given = {} if name is None else _fields_of_name(path, name)
        given |= {option: value for option, value in options.items() if value is not None}
        if "curve" not in found:  # the folder above those that `name` contains
            found["curve"] = path.absolute().parents[(name or "").count("/")].name or "runs"
        columns = {*found, *(FIELDS[option][0] for option in given)}
        for (lacking, any_of), how in zip(_NEEDED.items(), advice, strict=True):
            if not any_of & columns:
                raise UserError(f"{path}: does not say {lacking}: {how}")
        tables.append(_with_options(path, found, given))
        notes |= dict.fromkeys(found.attrs.get("notes", ()))
    rows = pd.concat(tables, ignore_index=True)
    if rows["batch_per_worker"].isna().any():
        notes["the batch is not known: --batch or --global-batch would give times of steps"] = None
    table = rows[[name for name in CurveRow.model_fields if name in rows and name in COLUMNS]]
    table = table.dropna(axis="columns", how="all")
    table.attrs["notes"] = [*notes]
    return table


def pattern_of_user(text: str) -> LogFormat:
    """Return the importer of logs whose results match a regular expression.

    Raises:
        UserError: it is no regular expression, or it has other groups than `FIELDS`, or none.
    """
    try:
        groups = re.compile(text).groupindex.keys()
    except re.error as error:
        raise UserError(f"--pattern {text[:60]}: is no regular expression ({error})") from None
    if not groups or groups - FIELDS.keys():
        unknown = ", ".join(sorted(groups - FIELDS.keys()))
        problem = f"group {unknown} is not known" if unknown else "has no named group"
        raise UserError(f"--pattern {text[:60]}: {problem}; allowed are {', '.join(FIELDS)}")
    return LogFormat(example=text, results=[text], warm_up="")


def _fields_of_name(path: Path, pattern: str) -> dict[str, Any]:
    """Return the values of the `{fields}` of a pattern in the name of a file and its folders."""
    fields = re.findall(r"\{(\w+)\}", pattern)
    expression = re.sub(r"(\\\*)+", ".*", re.escape(pattern))
    many = len(set(fields)) < len(fields) or expression.count(".*") > _MOST_STARS
    if many or not set(fields) <= set(_FIELDS):
        allowed = ", ".join(f"{{{field}}}" for field in _FIELDS)
        raise UserError(
            f"--name {pattern[:60]}: may hold {allowed} once each, and at most {_MOST_STARS} stars"
        )
    for field in fields:
        expression = expression.replace(rf"\{{{field}\}}", f"(?P<{field}>{_FIELDS[field]})")
    match = re.fullmatch(expression, "/".join(path.absolute().parts[-pattern.count("/") - 1 :]))
    if match is None:
        raise UserError(f"{path}: its name is not like --name {pattern}")
    return {n: text if n == "curve" else int(text) for n, text in match.groupdict().items()}


def _with_options(path: Path, rows: pd.DataFrame, given: Mapping[str, Any]) -> pd.DataFrame:
    """Return the rows of a file with the values of the options, and with the batch per device."""
    if "unit" in rows:
        raise UserError(f"{path}: is a table that `nodewise fit` reads itself; import takes logs")
    if "curve" in given:
        if rows["curve"].nunique() > 1:
            raise UserError(f"{path}: has {rows['curve'].nunique()} curves; leave out --curve")
        rows["curve"] = given["curve"]
    for name, value in given.items():
        if name == "curve":
            continue
        column, option = FIELDS[name][0], f"--{name.replace('_', '-')} {value}"
        if not value > 0:
            raise UserError(f"{path}: {option} is not allowed, must be more than 0")
        known = rows.reindex(columns=[column])[column].astype(object)
        for read in pd.to_numeric(known, errors="coerce").dropna():
            if abs(read / value - 1) > _EXACT * (name == "global_batch"):
                raise UserError(f"{path}: {name} is {read:g} in the log, but {option} was given")
        rows[column] = known.fillna(value)
    table = check_rows(rows, path)
    batch, nodes, whole = table["batch"], table["nodes"], table["global_batch"]
    for at in table.index[(batch * nodes / whole - 1).abs() > _EXACT]:
        raise UserError(
            f"{path}: a batch of {batch[at]:g} on each of {nodes[at]:g} devices is not the global "
            f"batch {whole[at]:g}"
        )
    return table.assign(batch_per_worker=batch).drop(columns="global_batch")

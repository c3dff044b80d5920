r"""Read text logs. A kind of log is declared by regular expressions with named groups.

A group is named after a field of `FIELDS`: `(?P<step_ms>[\d.]+)` is the time of a step in
milliseconds. `^` and `$` match at every line. Lines are read without what terminals and launchers
put before them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from nodewise.core.errors import UserError
from nodewise.core.schema import read_bytes, read_start
from nodewise.results.curves import MOST_NODES

FIELDS = {
    "curve": ("curve", None),
    "collective": ("collective", None),
    "devices": ("nodes", 1.0),
    "hosts": ("hosts", 1.0),
    "batch": ("batch_per_worker", 1.0),
    "global_batch": ("global_batch", 1.0),
    "examples": ("examples", 1.0),
    "step_s": ("step_time_s", 1.0),
    "step_ms": ("step_time_s", 1e-3),
    "epoch_s": ("epoch_time_s", 1.0),
    "steps_per_s": ("steps_per_s", 1.0),
    "samples_per_s": ("samples_per_s", 1.0),
    "samples_per_s_per_device": ("samples_per_s_per_device", 1.0),
    "start_ms": ("started", 1e-3),
    "stop_ms": ("stopped", 1e-3),
    "epochs": ("epochs", 1.0),
}
"""The column and the unit of each field of a pattern.

`batch` is that of one device. `start_ms` and `stop_ms` are the ends of an epoch, or of `epochs`.
"""

_MOST_BYTES = 200_000_000
_START_BYTES = 20_000_000  # where recognition looks: libraries may write much before any result

# Colours, also those that lost their first character when they were copied, and backspaces.
_CODES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\[(?:\d{1,3}(?:;\d{1,3})*)?m|\x08|\r(?=\n)")
_STAMPS = re.compile(  # and indentation
    r"""^[ \t]*(?:
        \w{3}[ ]\w{3}[ ][ \d]\d[ ][\d:]{8}[ ]\d{4}(?=\[)              # mpirun
        | \d{4}-\d\d-\d\dT\d\d:\d\d:[\d.]+(?:Z|[+-]\d\d:\d\d)[ ]*    # kubectl logs --timestamps
        | \(\w{1,60}[ ]pid=\d{1,9}[^)\n]{0,200}\)[ ]*                # Ray
    )*""",
    re.MULTILINE | re.VERBOSE,
)
# `[1,0]<stdout>:` of mpirun, `[0]<stdout>:` of horovodrun, `0: ` of srun --label
_TAG = re.compile(
    r"^\[(?:\d{1,9},)?(?:mpirank:)?(\d{1,9})(?:,[\w-]{1,60})?\](?:<std\w{3}>:)? ?(.*)", re.MULTILINE
)
_LABEL = re.compile(r"^ {0,5}(\d{1,6}): ?(.*)", re.MULTILINE)
_LINE = re.compile(r"^.+", re.MULTILINE)


def pattern_of_user(text: str) -> "LogFormat":
    """Return the importer of logs whose results match a regular expression.

    The first result is left out if there are more, because the first steps are slower.

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
    return LogFormat(result=text, example=text, warm_up=1)


@dataclass(frozen=True)
class LogFormat:
    """An importer of one kind of log. Each match of `result` is a measurement, others are repeats.

    Attributes:
        result: pattern of a measurement.
        whole: pattern of a measurement of the whole run, for logs without a `result`.
        example: a line that `result` finds, for messages.
        settings: patterns of what a run says once, before its results. Ranks may repeat them.
        start: pattern by which the log is recognised; by default `result`.
        refused: reasons why a log is refused, by the pattern that shows it.
        doubts: notes on the results, by the pattern that shows them.
        warm_up: number of first results that are left out, if there are more.
    """

    result: str
    example: str
    whole: str = ""
    settings: tuple[str, ...] = ()
    start: str = ""
    refused: Mapping[str, str] = field(default_factory=dict)
    doubts: Mapping[str, str] = field(default_factory=dict)
    warm_up: int = 0

    def sniff(self, path: Path) -> bool:
        """Return whether the file has a line by which this kind of log is recognised."""
        return starts_with(path, _lines(self.start or self.result))

    def read(self, path: Path) -> pd.DataFrame:
        """Return one row per result.

        Raises:
            UserError: the log is refused, has no result, or has several runs: a setting comes after
                a result, or with another value.
        """
        return self.rows_of(text_of(path), path)

    def rows_of(self, text: str, path: Path) -> pd.DataFrame:
        """Return one row per result in the text of a log; see `read`."""
        for sign, reason in self.refused.items():
            if found := _lines(sign).search(text):
                raise _refusal(path, text, found, reason)
        results, said = [*_lines(self.result).finditer(text)], dict[str, str]()
        for setting in self.settings:
            lines = [*_lines(setting).finditer(text)]
            for line in lines:
                late = results and line.start() > results[0].start()
                if late or line.groups() != lines[0].groups():
                    other = "another run begins; give each its own file"
                    raise _refusal(path, text, line, other)
            said |= lines[0].groupdict("") if lines else {}
        if not results and self.whole:
            results = [*_lines(self.whole).finditer(text)]
        if not results:
            raise UserError(f"{path}: has no line like `{self.example}`")
        left_out = self.warm_up if len(results) > self.warm_up else 0
        table = pd.DataFrame(
            [_columns(path, said | row.groupdict("")) for row in results[left_out:]]
        )
        notes = [note for sign, note in self.doubts.items() if _lines(sign).search(text)]
        table.attrs["notes"] = notes + ["the first result is left out as warm-up"] * left_out
        return table


def _lines(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.MULTILINE)


def _columns(path: Path, fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a result by column, in seconds."""
    row: dict[str, Any] = {}
    for name, text in fields.items():
        column, unit = FIELDS[name]
        if not text:
            continue
        try:
            row[column] = text if unit is None else float(text) * unit
        except ValueError:
            raise UserError(f"{path}: {name} must be a number, not {text!r:.40}") from None
    if "stopped" in row:
        seconds = row.pop("stopped") - row.pop("started", 0.0)
        row["epoch_time_s"] = seconds / (row.pop("epochs", 1.0) or 1.0)
    if "nodes" not in row and {"global_batch", "batch_per_worker"} <= set(row):
        whole, each = row.pop("global_batch"), row["batch_per_worker"]
        nodes = whole / each if each else 0.0
        row["nodes"] = round(nodes) if nodes <= MOST_NODES else 0
        if not row["nodes"] or abs(row["nodes"] / nodes - 1) > 1e-6:
            raise UserError(
                f"{path}: a batch of {whole:g} with {each:g} per device is not that of a whole "
                "number of devices"
            )
    return row


def text_of(path: Path) -> str:
    """Return the text of a log, without what terminals and launchers add.

    Codes for colours, time stamps and the tags of launchers are removed. If several ranks wrote the
    log, the lowest rank is read: lines of other ranks become empty, so that lines keep their
    numbers. Invalid characters are replaced by `�`.

    Raises:
        UserError: the file cannot be read, or is too large.
    """
    return _plain(read_bytes(path, _MOST_BYTES))


def starts_with(path: Path, sign: re.Pattern[str]) -> bool:
    """Return whether a pattern is found near the start of a log, read as by `text_of`."""
    return sign.search(_plain(read_start(path, _START_BYTES))) is not None


def _refusal(path: Path, text: str, at: re.Match[str], reason: str) -> UserError:
    number = text.count("\n", 0, at.start()) + 1
    return UserError(f"{path}: line {number}: {reason}")


def _plain(content: bytes) -> str:
    text = _STAMPS.sub("", _CODES.sub("", content.decode("utf-8-sig", errors="replace")))
    labelled = all(_LABEL.match(line[0]) for line in _LINE.finditer(text))
    tag = _LABEL if labelled else _TAG
    lowest = min((int(line[1]) for line in tag.finditer(text)), default=0)
    return tag.sub(lambda line: line[2] if int(line[1]) == lowest else "", text)

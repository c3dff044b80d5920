r"""Read text logs. A kind of log is declared by regular expressions with named groups.

A group is named after a field of `FIELDS`: `(?P<step_ms>[\d.]+)` is the time of a step in
milliseconds. `^` and `$` match at every line. Lines are read without what terminals and launchers
put before them, which is learned from the log: see `without_prefixes`.
"""

import itertools
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

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

_SYNONYMS = {"distributed_replicated": "parameter_server"}
_MOST_BYTES = 200_000_000
_START_BYTES = 20_000_000  # where recognition looks: libraries may write much before any result

# Colours, also those whose first character was lost or replaced by a copy, and backspaces.
_CODES = re.compile(
    r"(?:[\x1b\u241b\ufffd]|\^\[|\\(?:x1b|033|e|u001b))\[[0-?]*[ -/]*[@-~]"
    r"|\[(?:\d{1,3}(?:;\d{1,3})*)?m|\x08|\r(?=\n)"
)
_THOUSANDS = re.compile(r",(?=\d{3}(?!\d))")
_WORD = re.compile(r"(\w+)")
_LONGEST_PREFIX = 300
_MOST_PREFIXES = 20


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
        others: patterns of measurements, each for logs without those before it, such as one of the
            whole run.
        example: a line that `result` finds, for messages.
        settings: patterns of what a run says once, before its results. Ranks may repeat them.
        start: pattern by which the log is recognised; by default `result`.
        refused: reasons why a log is refused, by the pattern that shows it.
        doubts: notes on the results, by the pattern that shows them.
        warm_up: number of first results that are left out, if there are more.
    """

    result: str
    example: str
    others: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    start: str = ""
    refused: Mapping[str, str] = field(default_factory=dict)
    doubts: Mapping[str, str] = field(default_factory=dict)
    warm_up: int = 0

    @property
    def known(self) -> list[str]:
        """Patterns of lines by which prefixes are learned."""
        patterns = [self.start, self.result, *self.others, *self.settings]
        anchored = [pattern for pattern in patterns if pattern.startswith("^")]
        return anchored or [self.start or self.result]

    def sniff(self, path: Path) -> bool:
        """Return whether the file has a line by which this kind of log is recognised."""
        sign = re.sub(r"(^|\|)\^", r"\1", self.start or self.result)  # prefixes are not removed yet
        return re.search(sign, start_of(path)) is not None

    def read(self, path: Path) -> pd.DataFrame:
        """Return one row per result.

        Raises:
            UserError: the log is refused, has no result, or has several runs: a setting comes after
                a result, or with another value.
        """
        return self.rows_of(text_of(path, self.known), path)

    def rows_of(self, text: str, path: Path) -> pd.DataFrame:
        """Return one row per result in the text of a log; see `read`."""
        for sign, reason in self.refused.items():
            if line := _lines(sign).search(text):
                raise _refusal(path, text, line, reason)
        results, said, ranks = [*_lines(self.result).finditer(text)], dict[str, str](), 1
        for setting in self.settings:
            found = [*_lines(setting).finditer(text)]
            for line in found:
                late = results and line.start() > results[0].start()
                if late or line.groups() != found[0].groups():
                    other = "another run begins; give each its own file"
                    raise _refusal(path, text, line, other)
            said |= found[0].groupdict("") if found else {}
            ranks = max(ranks, len(found))
        for other in self.others:
            results = results or [*_lines(other).finditer(text)]
        if not results:
            raise UserError(f"{path}: has no line like `{self.example}`")
        lines = [_without_values(text, row) for row in results]
        runs = [len([*run]) for _, run in itertools.groupby(lines)]
        if {*runs} == {runs[0]} and (len(runs) > 1 or runs[0] == ranks):
            results = results[:: runs[0]]  # all ranks wrote each result in turn, without a tag
        left_out = self.warm_up if len(results) > self.warm_up else 0
        table = pd.DataFrame(
            [_columns(path, said | row.groupdict("")) for row in results[left_out:]]
        )
        notes = [note for sign, note in self.doubts.items() if _lines(sign).search(text)]
        table.attrs["notes"] = notes + ["the first result is left out as warm-up"] * left_out
        return table


def _lines(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.MULTILINE)


def _without_values(text: str, result: re.Match[str]) -> str:
    """Return a result and what stands before it in its line, without values and time stamps."""
    before = text[text.rfind("\n", 0, result.start()) + 1 : result.start()]
    return re.sub(r"\d+", "", before[-_LONGEST_PREFIX:]) + _uncaptured(result)


def _columns(path: Path, fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a result by column, in seconds."""
    row: dict[str, Any] = {}
    for name, text in fields.items():
        column, unit = FIELDS[name]
        if not text:
            continue
        try:
            number = None if unit is None else float(_THOUSANDS.sub("", text)) * unit
            row[column] = _SYNONYMS.get(text, text) if number is None else number
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


def text_of(path: Path, known: Sequence[str]) -> str:
    """Return the text of a log, without codes for colours and without prefixes of its lines.

    Invalid characters are replaced by `�`.

    Args:
        path: the log.
        known: patterns of lines by which prefixes are learned; see `without_prefixes`.

    Raises:
        UserError: the file cannot be read, or is too large.
    """
    return without_prefixes(_plain(read_bytes(path, _MOST_BYTES)), known)


def start_of(path: Path) -> str:
    """Return the start of a log, with prefixes of its lines, but without codes for colours."""
    return _plain(read_start(path, _START_BYTES))


def without_prefixes(text: str, known: Sequence[str]) -> str:
    r"""Remove what launchers and loggers put before every line: labels, time stamps, indentation.

    It is learned from what stands before known lines: the signs between its words are the same
    before every line, its numbers may differ, and so may words that differ before known lines.
    `[1,0]<stdout>:` becomes `\[\d+,\d+\]<stdout>:`.

    If several ranks wrote the same lines in turn, a word of the prefixes tells them apart. Lines
    of the lowest rank are kept then, and those of others become empty, so that lines keep their
    numbers.

    Args:
        text: the log.
        known: patterns of lines; the first that is found decides which prefixes there are. If it
            does not begin with `^`, ranks are told apart, but nothing is removed.
    """
    prefixes: dict[tuple[str, ...], list[_Known]] = {}
    decisive = ""
    for pattern in known:
        for found in _lines(pattern.removeprefix("^")).finditer(text):
            start = text.rfind("\n", 0, found.start()) + 1
            if found.start() - start <= _LONGEST_PREFIX:
                pieces = _WORD.split(text[start : found.start()].strip())
                signs = tuple(re.sub(r"\s+", " ", piece) for piece in pieces[::2])
                if not decisive or pattern == decisive or signs in prefixes:
                    one = _Known(start, pieces[1::2], _uncaptured(found))
                    prefixes.setdefault(signs, []).append(one)
                    decisive = decisive or pattern
    for signs in sorted(prefixes, key=len, reverse=True)[:_MOST_PREFIXES]:
        text = _strip(text, signs, sorted(prefixes[signs]), remove=decisive.startswith("^"))
    return text


class _Known(NamedTuple):
    """A known line: where it begins, the words of its prefix, and what its pattern fixes."""

    start: int
    words: list[str]
    content: str


def _uncaptured(found: re.Match[str]) -> str:
    """Return what a pattern matched, without the values that it captured."""
    text = found[0]
    for low, high in sorted({found.span(name) for name in found.groupdict()}, reverse=True):
        if low >= 0:
            text = text[: low - found.start()] + text[high - found.start() :]
    return text


def _strip(text: str, signs: Sequence[str], known: Sequence[_Known], *, remove: bool) -> str:
    """Remove one kind of prefix, and the lines of all ranks but the lowest."""
    columns = [[one.words[at] for one in known] for at in range(len(signs) - 1)]
    words = [rf"({_any_of({*column})})" for column in columns]
    between = [re.escape(sign).replace(r"\ ", r"[ \t]+") for sign in signs]
    prefix = "".join(itertools.chain(*zip(between, [*words, ""], strict=True)))
    ranks = [column for column in columns if _tells_ranks(column, known)]
    if not ranks and not remove:
        return text
    rank = max(ranks, key=lambda column: len({*column}), default=[])
    at = columns.index(rank) + 1 if ranks else 0
    lowest = min(rank, key=lambda word: (int(re.sub(r"\D", "", word) or 0), word), default="")

    def rest(line: re.Match[str]) -> str:
        if at and line[at] != lowest:
            return ""
        return line["rest"] if remove else line[0]

    return _lines(rf"^[ \t]*{prefix}[ \t]*(?P<rest>.*)").sub(rest, text)


def _any_of(words: set[str]) -> str:
    """Return the pattern of words: of any number, of one word with any numbers, or of any word."""
    shapes = {re.sub(r"\d+", r"\\d+", word) for word in words}
    return shapes.pop() if len(shapes) == 1 else r"\w+"


def _tells_ranks(column: Sequence[str], known: Sequence[_Known]) -> bool:
    """Return whether a word with a number takes turns, and has the same lines with each value."""
    contents: dict[str, set[str]] = defaultdict(set)
    for word, one in zip(column, known, strict=True):
        contents[word].add(one.content)
    turns = sum(one != other for one, other in itertools.pairwise(column))
    most = max(contents.values(), key=len)
    shared = min(len(lines & most) for lines in contents.values())
    numbered = all(re.search(r"\d", word) for word in contents)
    return numbered and 1 < len(contents) <= turns and len(most) > 1 and 2 * shared > len(most)


def _refusal(path: Path, text: str, at: re.Match[str], reason: str) -> UserError:
    number = text.count("\n", 0, at.start()) + 1
    return UserError(f"{path}: line {number}: {reason}")


@lru_cache(maxsize=1)  # all formats look at the same start
def _plain(content: bytes) -> str:
    return _CODES.sub("", content.decode("utf-8-sig", errors="replace"))

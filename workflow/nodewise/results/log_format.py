r"""Read text logs. A kind of log is declared by regular expressions with named groups.

A group is named after a field of `FIELDS`: `(?P<step_ms>[\d.]+)` is the time of a step in
milliseconds. `^` and `$` match at every line. Lines are read without what terminals and launchers
put before them, which is learned from the log: see `text_of`.
"""

import itertools
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd

from nodewise.core.errors import UserError
from nodewise.core.schema import read_bytes, read_start, read_tree
from nodewise.results.csv_file import decode
from nodewise.results.curve_units import PREFIXES

DECLARED = read_tree(Path(__file__).with_name("log_formats.yaml"))
FIELDS: Mapping[str, tuple[str, float | None]] = DECLARED["fields"]
"""The column and the unit of each field of a pattern; texts have no unit."""

COLLECTIVES: Mapping[str, str] = DECLARED["collectives"]
"""The law of each other name of an exchange."""
MOST_BYTES = 200_000_000
_START_BYTES = 20_000_000  # where recognition looks: libraries may write much before any result

_CODES = re.compile(DECLARED["control"]["codes"])
_RETURN = re.compile(DECLARED["control"]["returns"])
_THOUSANDS = re.compile(r"(?<!^0),(?=\d{3}(?!\d))")  # `0,250` has a decimal comma
_PREFIX = re.compile(r"[kKMGB](?!\w)| ?[kKM](?= ?(?:im|sampl|exampl|seq|tok)\w* ?(?:/|per\s))")
"""Of a unit, after a number: `11.5K`, `11.5 kimages/s`."""
_NUMBERED = re.compile(r"\w*\d\w*")
_ANY_NUMBERED = r"(?=\\w*\\d)(\\w++)"  # puts the pattern of such words in their place
_DIGITS = 6  # of a number of devices, to which rounded batches lead
_LONGEST_PREFIX = 300
_MOST_PREFIXES = 20


@dataclass(frozen=True)
class LogFormat:
    """An importer of one kind of log. Each match of a pattern of results is a measurement.

    Attributes:
        example: a line with a result, for messages.
        results: patterns of measurements, each for logs without those before it.
        settings: patterns of what a run says once, before its results. Ranks may repeat them.
        start: pattern by which the log is recognised; by default that of the first results.
        unless: pattern of other logs, which may have such lines, too.
        refused: reasons why a log is refused, by the pattern that shows it.
        notes: notes on the results, by the pattern that shows them.
        warm_up: pattern of logs whose first of several results is left out, because first steps are
            slower.
        scattered: whether settings may come after results.
        rule: corrects the rows by what else the text says, and adds to the notes.
    """

    example: str
    results: Sequence[str]
    settings: Sequence[str] = ()
    start: str = ""
    unless: str = "(?!)"
    refused: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    warm_up: str = "(?!)"
    scattered: bool = False
    rule: Callable[[pd.DataFrame, str, list[str]], pd.DataFrame] | None = None

    def sniff(self, path: Path) -> bool:
        """Return whether the file has a line by which this kind of log is recognised."""
        sign = (self.start or self.results[0]).removeprefix("^")  # prefixes are not removed yet
        text = plain(read_start(path, _START_BYTES))
        return re.search(sign, text) is not None and not re.search(self.unless, text)

    def read(self, path: Path) -> pd.DataFrame:
        """Return one row per result.

        Raises:
            UserError: the log is refused, has no result, or has several runs: a setting comes after
                a result, or with another value.
        """
        known = [self.start or self.results[0], *self.results, *self.settings]
        anchored = [pattern for pattern in known if pattern.startswith("^")]
        text = text_of(path, anchored or known[:1])
        results = next(filter(None, (_find(pattern, text) for pattern in self.results)), [])
        first_end = results[0].end() if results and not self.scattered else len(text)
        settings = [lines for pattern in self.settings if (lines := _find(pattern, text))]
        problems = [
            (line, "another run begins; give each its own file")
            for lines in settings
            for line in lines
            if line.start() > first_end or line.groups() != lines[0].groups()
        ]
        problems += [
            (line, why) for sign, why in self.refused.items() for line in _find(sign, text)
        ]
        for line, why in problems:
            number = text.count("\n", 0, line.start()) + 1
            raise UserError(f"{path}: line {number}: {why}")
        if not results:
            raise UserError(f"{path}: has no line like `{self.example}`")
        results = _of_one_rank(results, max(map(len, settings), default=1))
        notes = [note for sign, note in self.notes.items() if _find(sign, text)]
        if len(results) > 1 and re.search(self.warm_up, text, re.MULTILINE):
            results = results[1:]
            notes.append("the first result is left out as warm-up")
        firsts = [one for one, *_ in settings]
        table = pd.DataFrame([_columns(path, [*firsts, one]) for one in results])
        table = self.rule(table, text, notes) if self.rule else table
        table.attrs["notes"] = notes
        return table


def _find(pattern: str, text: str) -> list[re.Match[str]]:
    return [*re.finditer(pattern, text, re.MULTILINE)]


def _of_one_rank(results: list[re.Match[str]], ranks: int) -> list[re.Match[str]]:
    """Return the results of one rank, if all ranks wrote each result in turn, without a tag."""
    lines = [re.sub(r"\d+", "", _before(one)) + _uncaptured(one) for one in results]
    runs = [len([*run]) for _, run in itertools.groupby(lines)]
    in_turn = {*runs} == {runs[0]} and (len(runs) > 1 or runs[0] == ranks)
    return results[:: runs[0]] if in_turn else results


def _before(found: re.Match[str]) -> str:
    """Return what stands before a match in its line, up to a length."""
    low = max(found.string.rfind("\n", 0, found.start()) + 1, found.start() - _LONGEST_PREFIX - 1)
    return found.string[low : found.start()]


def _uncaptured(found: re.Match[str]) -> str:
    """Return what a pattern matched, without captured values, and decimals as each rank has."""
    text = found[0]
    for low, high in sorted({found.span(name) for name in found.groupdict()}, reverse=True):
        if low >= 0:
            text = text[: low - found.start()] + text[high - found.start() :]
    return re.sub(r"\d+\.\d+", "", text)


def _columns(path: Path, matches: Sequence[re.Match[str]]) -> dict[str, Any]:
    """Return the fields of a result and its settings by column, in seconds."""
    row: dict[str, Any] = {}
    for found, name in ((one, name) for one in matches for name in one.groupdict() if one[name]):
        column, unit = FIELDS[name]
        text = found[name]
        if unit is None:
            row[column] = COLLECTIVES.get(text, text) if name == "collective" else text
            continue
        prefix = _PREFIX.match(found.string, found.end(name))
        try:
            number = float(_THOUSANDS.sub("", text))
        except ValueError:
            raise UserError(f"{path}: {name} must be a number, not {text!r:.40}") from None
        number *= PREFIXES[prefix[0].strip()] if prefix else 1.0
        row[column] = row.get(column, 1.0) * number * unit
    for derived, (end, begin, divisor, usual) in DECLARED["derived"].items():
        if end in row:
            difference = row.pop(end) - row.pop(begin, 0.0)
            row[derived] = difference / (row.pop(divisor, usual) or usual)
    if {"hosts", "devices_per_host"} <= set(row):
        row.setdefault("nodes", row["hosts"] * row["devices_per_host"])
    if "nodes" not in row and {"global_batch", "batch_per_worker"} <= set(row):
        whole, batch = row["global_batch"], row["batch_per_worker"] or 1.0
        row["nodes"] = round(whole / batch, _DIGITS)
        if row["nodes"] % 1:
            raise UserError(f"{path}: {batch:g} examples on each device are no part of {whole:g}")
    return row


@lru_cache(maxsize=1)  # all formats look at the same start
def plain(content: bytes) -> str:
    """Return a log without codes for colours, and a line for each state of a progress bar."""
    return _RETURN.sub("\r", _CODES.sub("", decode(content))).replace("\r", "\n")


def text_of(path: Path, known: Sequence[str]) -> str:
    """Return a log without what launchers and loggers put before every line, and without colours.

    The prefix of a line is a label, a time stamp, indentation. It is learned from what stands
    before known lines. Words with numbers may differ: `[1,0]<stdout>:` is any `[…,…]<stdout>:`.

    If several ranks wrote the same lines in turn, such words tell them apart. Lines of the lowest
    rank are kept then, and those of others become empty, so that lines keep their numbers.

    Args:
        path: the log.
        known: patterns of lines; the first that is found decides which signs prefixes have. If it
            does not begin with `^`, ranks are told apart, but nothing is removed.

    Raises:
        UserError: the file cannot be read, or is too large.
    """
    text = plain(read_bytes(path, MOST_BYTES))
    prefixes: dict[str, list[re.Match[str]]] = defaultdict(list)
    signs: set[str] = set()
    for pattern in known:
        learned = {*signs}
        for found in _find(pattern.removeprefix("^"), text):
            before = _before(found)
            sign = re.sub(r"[\w\s]+", " ", before.strip())
            if len(before) <= _LONGEST_PREFIX and (sign in learned or not learned):
                signs.add(sign)
                words = _NUMBERED.sub(_ANY_NUMBERED, re.escape(" ".join(before.split())))
                prefixes[words.replace(r"\ ", r"[ \t]+")].append(found)
    for prefix in sorted(prefixes, key=len, reverse=True)[:_MOST_PREFIXES]:
        text = _strip(text, prefix, prefixes[prefix], remove=known[0].startswith("^"))
    return text


def _strip(text: str, prefix: str, known: Sequence[re.Match[str]], *, remove: bool) -> str:
    """Remove the prefix of known lines, and the lines of all ranks but the lowest."""
    lines = sorted(known, key=lambda line: line.start())
    columns = zip(*(_NUMBERED.findall(_before(line)) for line in lines), strict=True)
    contents = [*map(_uncaptured, lines)]
    ranks = {at: words for at, words in enumerate(columns, 1) if _tells_ranks(words, contents)}
    tags = [*zip(*ranks.values(), strict=True)] or [()]
    lowest = min(tags, key=lambda tag: [(int(re.sub(r"\D", "", word)), word) for word in tag])

    def rest(line: re.Match[str]) -> str:
        if tuple(line[at] for at in ranks) != lowest:
            return ""
        return line["rest"] if remove else line[0]

    return re.sub(rf"^[ \t]*{prefix}[ \t]*(?P<rest>.*)", rest, text, flags=re.MULTILINE)


def _tells_ranks(column: Sequence[str], contents: Sequence[str]) -> bool:
    """Return whether a word of prefixes takes turns, and has the same lines with each value."""
    lines = pd.Series(contents).groupby(pd.Series(column)).agg(set)
    turns = sum(one != other for one, other in itertools.pairwise(column))
    most = max(lines, key=len)
    shared = min(len(each & most) for each in lines)
    return 1 < len(lines) <= turns and len(most) > 1 and 2 * shared > len(most)

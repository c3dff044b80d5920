"""Curves that were measured elsewhere, from a CSV file: what it says, checked row by row.

A row is one measurement: a curve's name, on how many nodes, at which batch per worker, and how long
it took. Rows alike in these are repeats: their median is fitted, their spread is noise. A curve is
one model trained one way on one cluster, by any framework.
"""

import csv
import difflib
import hashlib
import io
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from nodewise.core.errors import UserError
from nodewise.core.intervals import median_error
from nodewise.core.schema import read_bytes
from nodewise.results.curves import (
    COLLECTIVES,
    MOST_NODES,
    POSSIBLE,
    TEXT_LENGTH,
    Clock,
    Collective,
    Curve,
    Measured,
    Measurements,
)

MOST_BYTES = 20_000_000
MOST_POINTS = 20_000
MOST_BATCHES = 500  # of the curves that are fitted together; takes up to a minute
MOST_SERVED = 4096  # workers of a parameter server; the law goes through them one by one
PARTS = ("compute_s", "wait_s", "communicate_s")
_CLOSE = 0.8  # names so alike are one name, misspelt
_SUPERLINEAR = 0.97
_OVERLAP = 1.1  # parts that add up to more of the step than this are not one after another
_LONGEST_PART = 1.05  # of the step; medians of parts and of steps need not be of the same step
Value = TypeVar("Value")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)


@dataclass(frozen=True)
class _Number:
    """What a column of numbers may hold."""

    least: float
    most: float
    whole: bool = False

    def read(self, text: str) -> float:
        """Return the number.

        Raises:
            ValueError: it is none, or not allowed; the text says what is.
        """
        allowed = f"a {'whole ' if self.whole else ''}number from {self.least:g} to {self.most:g}"
        if not _NUMBER.fullmatch(text):
            hint = "; write decimals with a point" if re.fullmatch(r"\d*,\d+", text) else ""
            raise ValueError(f"must be {allowed}, not {text[:40]!r}{hint}")
        value = float(text)
        if not self.least <= value <= self.most or (self.whole and value != int(value)):
            raise ValueError(f"must be {allowed}, not {text[:40]}")
        return value


_TIME = _Number(1e-9, 1e9)
_NUMBERS = {
    "nodes": _Number(1, MOST_NODES, whole=True),
    "batch_per_worker": _Number(1, 1e9, whole=True),
    "step_time_s": _TIME,
    "samples_per_s": _Number(1e-9, 1e12),
    "epoch_time_s": _TIME,
    "examples": _Number(1, 1e12, whole=True),
    "payload_bytes": _Number(1, 1e15),
    **dict.fromkeys(PARTS, _Number(0, 1e9)),
}
_TEXTS = ("curve", "collective", "cluster", "repeat")
_NEEDED = ("curve", "nodes", "batch_per_worker")
_CLOCKS: tuple[Clock, ...] = ("step_time_s", "samples_per_s", "epoch_time_s")
COLUMNS = (
    *_NEEDED,
    *_CLOCKS,
    "examples",
    "payload_bytes",
    *PARTS,
    "collective",
    "cluster",
    "repeat",
)
"""Every column that is read."""


def read_measurements(path: Path) -> Measurements:
    """Read a CSV file of measurements; commas, semicolons or tabs separate its columns.

    Columns, in any order:
        curve: a name. nodes, batch_per_worker: whole numbers.
        step_time_s, or samples_per_s (of all workers together), or epoch_time_s: at least one value
            in each row; of several the first in this order counts.
        examples: of an epoch, which makes seconds of a step out of epoch_time_s.
        payload_bytes: of one gradient. collective: one of `COLLECTIVES`; if not given, which of
            `POSSIBLE` it was is left to the fit.
        cluster: curves with the same value share latency and bandwidth; without one, none do.
        compute_s, wait_s, communicate_s: parts of a step, where they were measured.
        repeat: anything; it is not needed to tell repeats.

    Empty values count as not given. Other columns are left alone, which a note says.

    Raises:
        UserError: something is wrong; the text names the row, as an editor counts, and the column.
    """
    content = read_bytes(path, MOST_BYTES)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: is not UTF-8 text (byte {error.start + 1})") from None
    header, rows = _split(path, text)
    notes = _check_header(path, header)
    if not rows:
        raise UserError(f"{path}: has no measurements below its header")
    read = [_read_row(f"{path}: row {number}", header, values) for number, values in rows]
    by_curve: dict[str, list[_Row]] = defaultdict(list)
    for row in read:
        by_curve[row.texts["curve"]].append(row)
    curves = tuple(_curve(name, of_curve) for name, of_curve in by_curve.items())
    if sum(len(curve.measured) for curve in curves) > MOST_POINTS:
        raise UserError(f"{path}: has more than {MOST_POINTS:,} points; split it")
    measurements = Measurements(path.name, hashlib.sha256(content).hexdigest(), curves, notes)
    for group in measurements.groups():
        _check_batches(path, group)
    return measurements


def _check_batches(path: Path, together: Sequence[Curve]) -> None:
    batches = sum(len(curve.batches) for curve in together)
    if batches > MOST_BATCHES:
        others = ", with the others of its cluster," if len(together) > 1 else ""
        raise UserError(
            f"{path}: curve {together[0].name!r}{others} has {batches} batches per worker; "
            f"at most {MOST_BATCHES} can be fitted together"
        )


@dataclass(frozen=True)
class _Row:
    where: str
    texts: dict[str, str]
    collective: Collective | None
    numbers: dict[str, float]

    @property
    def clock(self) -> Clock:
        return next(clock for clock in _CLOCKS if clock in self.numbers)

    @property
    def in_seconds(self) -> bool:
        return self.clock != "epoch_time_s" or "examples" in self.numbers

    @property
    def step_s(self) -> float:
        """Seconds of a step; of an epoch of one example if nobody knows how many it has."""
        examples = self.numbers["nodes"] * self.numbers["batch_per_worker"]
        time = self.numbers[self.clock]
        if self.clock == "step_time_s":
            return time
        if self.clock == "samples_per_s":
            return examples / time
        return time * examples / self.numbers.get("examples", 1.0)


def _split(path: Path, text: str) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Return the names of the columns, and the rows' values with the line that each ends on."""
    first = text.lstrip("\r\n").partition("\n")[0]
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=first.count))
    rows = []
    try:
        for values in lines:
            stripped = [value.strip() for value in values]
            if any(stripped):
                rows.append((lines.line_num, stripped))
    except csv.Error as error:
        raise UserError(f"{path}: row {lines.line_num}: is no CSV ({error})") from None
    if not rows:
        raise UserError(f"{path}: is empty; its first row must name columns: {_expected()}")
    (_, header), *rows = rows
    while header and not header[-1]:
        header.pop()  # as spreadsheets leave them
    for number, values in rows:
        if len(values) < len(header) or any(values[len(header) :]):
            raise UserError(
                f"{path}: row {number}: has {len(values)} values for {len(header)} columns"
            )
    return header, rows


def _expected() -> str:
    return f"{', '.join(_NEEDED)} and one of {', '.join(_CLOCKS)}"


def _check_header(path: Path, header: Sequence[str]) -> tuple[str, ...]:
    """Return what is to be said of columns that are not read."""
    twice = [name for name in header if header.count(name) > 1]
    if twice:
        raise UserError(f"{path}: row 1: column {_shown(twice[0])} is there twice")
    unknown = [name for name in header if name not in COLUMNS]
    for name in unknown:
        close = difflib.get_close_matches(name.lower(), set(COLUMNS) - set(header), 1, _CLOSE)
        if close:
            raise UserError(
                f"{path}: row 1: column {_shown(name)} is not known; is it {close[0]}? "
                "Rename it, or take it out"
            )
    if not set(_NEEDED) <= set(header) or not set(_CLOCKS) & set(header):
        names = ", ".join(map(_shown, header[:12]))
        raise UserError(f"{path}: row 1: must name columns {_expected()}; it names {names}")
    return (f"columns not used: {', '.join(map(_shown, unknown))}",) if unknown else ()


def _shown(name: str) -> str:
    return name if re.fullmatch(r"\w{1,40}", name) else repr(name[:40])


def _read_row(where: str, header: Sequence[str], values: Sequence[str]) -> _Row:
    given = {name: value for name, value in zip(header, values, strict=False) if value}
    for name in _NEEDED:
        if name not in given:
            raise UserError(f"{where}, column {name}: is empty")
    if not any(clock in given for clock in _CLOCKS):
        there = [clock for clock in _CLOCKS if clock in header]
        raise UserError(f"{where}, column {there[0]}: is empty")
    texts = {name: given[name] for name in _TEXTS if name in given}
    for name, text in texts.items():
        if len(text) > TEXT_LENGTH or not text.isprintable():
            raise UserError(f"{where}, column {name}: must be one short line of text")
    collective = _collective(where, texts["collective"]) if "collective" in texts else None
    numbers = {}
    for name, column in _NUMBERS.items():
        if name in given:
            try:
                numbers[name] = column.read(given[name])
            except ValueError as error:
                raise UserError(f"{where}, column {name}: {error}") from None
    if collective == "parameter_server" and numbers["nodes"] > MOST_SERVED:
        raise UserError(
            f"{where}, column nodes: must be at most {MOST_SERVED} with parameter_server"
        )
    row = _Row(where, texts, collective, numbers)
    _check_parts(row)
    return row


def _check_parts(row: _Row) -> None:
    for name in PARTS:
        if name in row.numbers and not row.in_seconds:
            raise UserError(f"{row.where}, column {name}: needs examples beside epoch_time_s")
        if row.numbers.get(name, 0) > _LONGEST_PART * row.step_s:
            raise UserError(
                f"{row.where}, column {name}: {row.numbers[name]:g} s is more than the whole step, "
                f"{row.step_s:.4g} s"
            )


def _collective(where: str, text: str) -> Collective:
    name = re.sub(r"\W+", "_", text.lower())
    name = re.sub(r"_?all_?reduce$", "", name)
    for known in COLLECTIVES:
        if name == known:
            return known
    raise UserError(
        f"{where}, column collective: must be one of {', '.join(COLLECTIVES)}, not {text[:40]!r}"
    )


def _curve(name: str, rows: Sequence[_Row]) -> Curve:
    given: Collective | None = _only("collective", [(row.where, row.collective) for row in rows])
    cluster = _only("cluster", [(row.where, row.texts.get("cluster")) for row in rows])
    payload, examples = (
        _only(column, [(row.where, row.numbers.get(column)) for row in rows])
        for column in ("payload_bytes", "examples")
    )
    relative = [row for row in rows if not row.in_seconds]
    if relative and len(relative) < len(rows):
        raise UserError(
            f"{relative[0].where}, column examples: is needed beside epoch_time_s, as other rows "
            f"of curve {name!r} tell seconds of a step"
        )
    measured, notes = _measured(rows)
    if relative:
        notes.append("no examples given: epochs can be told, but neither steps nor examples/s")
    if cluster and (relative or payload is None):
        missing = "examples" if relative else "payload_bytes"
        notes.append(f"no {missing} given: shares nothing with other curves of its cluster")
        cluster = None
    return Curve(
        name=name,
        collective=given or POSSIBLE[0],
        assumed=given is None,
        cluster=cluster,
        payload_bytes=payload,
        examples=examples,
        clock=rows[0].clock,
        measured=measured,
        notes=(*notes, *_about_nodes(measured)),
    )


def _only(column: str, values: Iterable[tuple[str, Value | None]]) -> Value | None:
    """Return the one value that a column has in the rows of a curve in which it has any."""
    only: Value | None = None
    for where, value in values:
        if only is not None and value is not None and value != only:
            raise UserError(
                f"{where}, column {column}: must be the same in all rows of a curve; it is "
                f"{value}, and {only} before"
            )
        only = value if only is None else only
    return only


def _measured(rows: Sequence[_Row]) -> tuple[tuple[Measured, ...], list[str]]:
    """Return the points of a curve, and notes on what was done to them."""
    alike: dict[tuple[float, float], list[_Row]] = defaultdict(list)
    for row in rows:
        alike[row.numbers["batch_per_worker"], row.numbers["nodes"]].append(row)
    points = tuple(_point(alike[key]) for key in sorted(alike))
    sums = [(point.compute or 0) + (point.wait or 0) + (point.communicate or 0) for point in points]
    if any(total > _OVERLAP * point.step_time for total, point in zip(sums, points, strict=True)):
        bare = dict.fromkeys(("compute", "wait", "communicate"))
        whole = tuple(point.model_copy(update=bare) for point in points)
        return whole, ["parts add up to more than the step, so they overlap: not used"]
    return points, []


def _point(rows: Sequence[_Row]) -> Measured:
    times = np.array([row.step_s for row in rows])
    parts = {name: [row.numbers[name] for row in rows if name in row.numbers] for name in PARTS}
    medians = {name.removesuffix("_s"): float(np.median(v)) for name, v in parts.items() if v}
    error = np.std(np.log(times), ddof=1) * median_error(len(rows)) if len(rows) > 1 else None
    return Measured(
        nodes=int(rows[0].numbers["nodes"]),
        batch_per_worker=int(rows[0].numbers["batch_per_worker"]),
        step_time=float(np.median(times)),
        noise=error,
        repeats=len(rows),
        **medians,
    )


def _about_nodes(points: Sequence[Measured]) -> list[str]:
    """Return what is to be said of the numbers of nodes."""
    counts = {point.nodes for point in points}
    notes = []
    if len(counts) == 1:
        notes.append("one number of nodes: computing and communication cannot be told apart")
    elif 1 not in counts:
        notes.append("not measured on one node: one node is an extrapolation of the formula")
    alone = {point.batch_per_worker: point.step_time for point in points if point.nodes == 1}
    gains = [
        (1 - point.step_time / alone[point.batch_per_worker], point.nodes)
        for point in points
        if point.batch_per_worker in alone
    ]
    gain, nodes = max(gains, default=(0.0, 1))
    if gain > 1 - _SUPERLINEAR:
        notes.append(
            f"a step takes {gain:.0%} less time on {nodes} nodes than on one: no formula explains "
            "an efficiency over 100 %, and intervals are wider for it"
        )
    return notes

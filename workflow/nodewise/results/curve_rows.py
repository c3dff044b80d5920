"""Turn the rows that importers read into curves. A row is a measurement, or a median of several.

The checks and computations are the same for all importers: repeats become one point with their
median and their spread, and notes say what is doubtful.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import TypeVar

import numpy as np
import pandas as pd

from nodewise.core.errors import UserError
from nodewise.core.files import file_sha256
from nodewise.core.intervals import median_error
from nodewise.results.csv_file import Number, read_text
from nodewise.results.curve_units import counted_in
from nodewise.results.curves import (
    CLOCKS,
    MOST_NODES,
    SCALINGS,
    USUAL,
    Clock,
    Curve,
    Measured,
    Measurements,
    Scaling,
    same_batch,
)
from nodewise.results.table_files import typed

PART_TIMES = ("compute_s", "wait_s", "communicate_s")
NEEDED = ("curve", "nodes")
CURVE_ROWS = {
    "curve": "str",
    "nodes": "int64",
    "batch_per_worker": "float64",
    "global_batch": "float64",
    **dict.fromkeys(CLOCKS, "float64"),
    "hosts": "float64",
    "devices_per_host": "float64",
    "scaling": "str",
    "unit": "str",
    "unit_value": "float64",
    "publisher": "str",
    "examples": "float64",
    "payload_bytes": "float64",
    **dict.fromkeys(PART_TIMES, "float64"),
    "collective": "str",
    "cluster": "str",
    "noise": "float64",
    "repeats": "int64",
    "location": "str",
}
"""The columns of the rows and their types.

A row needs the columns `NEEDED` and one of `CLOCKS`; of several clocks, the first in that order is
used. Unknown values are NaN or empty, and columns may be missing.

- `samples_per_s` is the throughput of all workers together.
- `batch_per_worker`, `global_batch`: if a row has neither, the batch of the other rows of its curve
  is used, according to `scaling` (weak, strong or unknown).
- Clocks are in seconds or per second. The file had them in `unit`, which is `unit_value` of the
  clock's own unit.
- `examples` is the number of examples of an epoch.
- `collective` names a law of the step time, such as `ring` or `averaging(period=8)`.
- `noise` is the relative standard error of a row that is the median of `repeats` measurements.
- `location` is the place of the row for messages, such as `curves.csv: row 7`.
"""
_TIME = Number(1e-9, 1e9)
NUMBERS = {
    "nodes": Number(1, MOST_NODES, whole=True),
    "batch_per_worker": Number(1e-9, 1e15),
    "step_time_s": _TIME,
    "samples_per_s": Number(1e-9, 1e12),
    "epoch_time_s": _TIME,
    "steps_per_s": Number(1e-9, 1e9),
    "examples": Number(1, 1e12, whole=True),
    "payload_bytes": Number(1, 1e15),
    **dict.fromkeys(PART_TIMES, Number(0, 1e9)),
}
"""The numbers that columns of the rows may hold."""
MOST_POINTS = 20_000
MOST_BATCHES = 500  # most batches of curves that are fitted together; this takes up to a minute
_SUPERLINEAR = 0.97
_OVERLAP = 1.1  # if parts add up to more than this share of the step, some overlap
_LONGEST_PART = 1.05  # of the step; more than 1, as medians may come from different steps
Value = TypeVar("Value")


def measurements(rows: pd.DataFrame, path: Path) -> Measurements:
    """Return the curves of a file.

    Args:
        rows: the rows that an importer read, with columns of `CURVE_ROWS`. `rows.attrs["notes"]`
            may hold notes on the whole file.
        path: the file.

    Raises:
        UserError: a column is missing, a value is not allowed, rows contradict each other, or there
            are too many points. The message says where.
    """
    _check_columns(rows, path)
    check_rows(rows, path)
    by_curve: dict[str, list[_Row]] = defaultdict(list)
    for row in _read_rows(rows, path):
        by_curve[row.texts["curve"]].append(row)
    curves = tuple(_curve(name, of_curve) for name, of_curve in by_curve.items())
    if sum(len(curve.measured) for curve in curves) > MOST_POINTS:
        raise UserError(f"{path}: has more than {MOST_POINTS:,} points; split it")
    notes = tuple(rows.attrs.get("notes", ()))
    _check_batches(path, curves)
    return Measurements(path.name, file_sha256(path), curves, notes)


def _check_columns(rows: pd.DataFrame, path: Path) -> None:
    lacking = [column for column in NEEDED if column not in rows]
    if not set(CLOCKS) & set(rows):
        lacking.append(" or ".join(CLOCKS))
    if lacking and not {"batch_per_worker", "global_batch"} & set(rows):
        lacking.append("batch_per_worker")
    if lacking:
        raise UserError(
            f"{path}: does not say {', '.join(lacking)}; `nodewise import` can add what is missing"
        )


def check_rows(rows: pd.DataFrame, path: Path) -> None:
    """Check the names of the curves, and that every row has a time and allowed numbers.

    Raises:
        UserError: the first value that is not allowed. The message says where.
    """
    places = rows.get("location", pd.Series(str(path), rows.index))
    for place, name in zip(places, rows["curve"], strict=True):
        if not read_text(f"{place}: curve", name):
            raise UserError(f"{place}: curve is empty; give it a name")
    for name, number in NUMBERS.items():
        if name not in rows or "unit" in rows:  # values with units are checked in their units
            continue
        for place, value in zip(places, rows[name], strict=True):
            if not (number.allows(value) or np.isnan(value)):
                raise UserError(f"{place}: {name} must be {number.allowed}, not {value:g}")
    timed = rows.reindex(columns=[*CLOCKS]).notna().any(axis="columns")
    for place in places[~timed]:
        raise UserError(f"{place}: has no time: {', '.join(CLOCKS)}")


def _read_rows(rows: pd.DataFrame, path: Path) -> Iterable["_Row"]:
    texts = [name for name, dtype in CURVE_ROWS.items() if dtype == "str"]
    unknown = {name: "" if name in texts else np.nan for name in CURVE_ROWS} | {"repeats": 1}
    rows = rows.assign(**{name: value for name, value in unknown.items() if name not in rows})
    table = typed(rows.fillna({**dict.fromkeys(texts, ""), "repeats": 1}), CURVE_ROWS)
    for values in table.to_dict("records"):
        given = {str(name): value for name, value in values.items() if _is_known(value)}
        location = str(given.pop("location", path))
        if "global_batch" in given:
            given.setdefault("batch_per_worker", given.pop("global_batch") / given["nodes"])
        texts_of_row = {name: given.pop(name) for name in texts if name in given}
        yield _Row(location, texts_of_row, given)


def _is_known(value: str | float) -> bool:
    return value != "" if isinstance(value, str) else not np.isnan(value)


def _check_batches(path: Path, curves: Iterable[Curve]) -> None:
    of_link: dict[tuple[bool, str], list[Curve]] = defaultdict(list)
    for curve in curves:
        of_link[curve.cluster is None, curve.link].append(curve)
    for together in of_link.values():
        batches = sum(len(curve.batches) for curve in together)
        if batches > MOST_BATCHES:
            others = ", with the others of its cluster," if len(together) > 1 else ""
            raise UserError(
                f"{path}: curve {together[0].name!r}{others} has {batches} batches per worker; "
                f"at most {MOST_BATCHES} can be fitted together"
            )


@dataclass(frozen=True)
class _Row:
    location: str
    texts: dict[str, str]
    numbers: dict[str, float]

    @property
    def clock(self) -> Clock:
        return next(clock for clock in CLOCKS if clock in self.numbers)

    @property
    def in_seconds(self) -> bool:
        return self.clock != "epoch_time_s" or "examples" in self.numbers

    @property
    def step_s(self) -> float:
        """Seconds of a step, or of an epoch of one example if the examples of an epoch are unknown.

        The batch must be known.
        """
        examples = self.numbers["nodes"] * self.numbers["batch_per_worker"]
        time = self.numbers[self.clock]
        if self.clock == "step_time_s":
            return time
        if self.clock == "samples_per_s":
            return examples / time
        if self.clock == "steps_per_s":
            return 1 / time
        return time * examples / self.numbers.get("examples", 1.0)


def _check_row(row: _Row) -> None:
    for name in PART_TIMES:
        if name in row.numbers and not row.in_seconds:
            raise UserError(f"{row.location}, column {name}: needs examples beside epoch_time_s")
        if row.numbers.get(name, 0) > _LONGEST_PART * row.step_s:
            raise UserError(
                f"{row.location}, column {name}: {row.numbers[name]:g} s is more than the whole "
                f"step, {row.step_s:.4g} s"
            )


def _with_batches(rows: Sequence[_Row], scaling: Scaling) -> bool:
    """Fill in missing batches, and return whether any row of the curve has a batch.

    Missing batches are the median of the known ones, or of the global batch with strong scaling. If
    none is known, a placeholder is used: one example per node, or a global batch of `MOST_NODES`
    examples with strong scaling.
    """
    given = [row.numbers for row in rows if "batch_per_worker" in row.numbers]
    strong = scaling == "strong"
    if strong:
        batches = [n["batch_per_worker"] * n["nodes"] for n in given]
        batches = batches or [float(MOST_NODES)]
    else:
        batches = [n["batch_per_worker"] for n in given] or [1.0]
    for row in rows:
        nodes = row.numbers["nodes"] if strong else 1.0
        row.numbers.setdefault("batch_per_worker", float(np.median(batches)) / nodes)
    return bool(given)


def _curve(name: str, rows: Sequence[_Row]) -> Curve:
    named, unit = (_only_text(column, rows) for column in ("scaling", "unit"))
    scaling: Scaling = next((one for one in SCALINGS if one == named), "unknown")
    batch_known = _with_batches(rows, scaling)
    for row in rows:
        _check_row(row)
    given, cluster = (_only_text(column, rows) for column in ("collective", "cluster"))
    payload, examples, unit_value = (
        _only_number(column, rows) for column in ("payload_bytes", "examples", "unit_value")
    )
    in_host = [row.numbers["devices_per_host"] for row in rows if "devices_per_host" in row.numbers]
    relative = [row for row in rows if not row.in_seconds]
    if relative and len(relative) < len(rows):
        raise UserError(
            f"{relative[0].location}, column examples: is needed beside epoch_time_s, as other "
            f"rows of curve {name!r} give the time of a step"
        )
    measured, notes = _measured(rows)
    if wrong := _contradiction(scaling, measured):
        notes.append(f"scaling is {scaling}, but {wrong}: it is taken as unknown")
        scaling = "unknown"
    counted = counted_in(unit or "")
    if unit and counted and batch_known and rows[0].clock == "samples_per_s":
        notes.append(
            f"a rate in {unit}: step times and examples per second are right only if the batch is "
            f"in {counted}, too"
        )
    if not batch_known:
        notes.append("no batch given: steps are those of one example on each node")
    if relative:
        notes.append("no examples given: epoch times are known, but not the times of steps")
    if cluster and (relative or payload is None):
        missing = "examples" if relative else "payload_bytes"
        notes.append(f"no {missing} given: shares nothing with other curves of its cluster")
        cluster = None
    return Curve(
        name=name,
        collective=given or USUAL,
        assumed=given is None,
        cluster=cluster,
        scaling=scaling,
        batch_known=batch_known,
        devices_per_host=float(np.median(in_host)) if in_host else None,
        unit=unit or "",
        unit_value=unit_value or 1.0,
        publisher=rows[0].texts.get("publisher", ""),
        payload_bytes=payload,
        examples=examples,
        clock=rows[0].clock,
        measured=measured,
        notes=(*notes, *_about_nodes(measured)),
    )


def _contradiction(scaling: Scaling, points: Sequence[Measured]) -> str:
    """Return how the batches of points contradict the scaling of a curve; empty if they do not."""
    counts = [point.nodes for point in points]
    if len(set(counts)) < max(len(points), 2):
        return ""  # several batches on one number of nodes, or nothing to compare
    totals = [point.nodes * point.batch_per_worker for point in points]
    first = totals[np.argmin(counts)]
    if scaling == "strong" and not all(map(same_batch, totals, repeat(first), counts)):
        return "the global batch is not the same at all points"
    if scaling == "weak" and len({round(total, 6) for total in totals}) == 1:
        return "the global batch is the same at all points"
    return ""


def _only_text(column: str, rows: Sequence[_Row]) -> str | None:
    return _only(column, rows, [row.texts.get(column) for row in rows])


def _only_number(column: str, rows: Sequence[_Row]) -> float | None:
    return _only(column, rows, [row.numbers.get(column) for row in rows])


def _only(column: str, rows: Sequence[_Row], values: Sequence[Value | None]) -> Value | None:
    """Return the only value of a column in the rows of a curve; None if no row has one.

    Raises:
        UserError: two rows have different values.
    """
    only: Value | None = None
    for row, value in zip(rows, values, strict=True):
        if only is not None and value is not None and value != only:
            raise UserError(
                f"{row.location}, column {column}: must be the same in all rows of a curve; it is "
                f"{value} here, and {only} before"
            )
        only = value if only is None else only
    return only


def _measured(rows: Sequence[_Row]) -> tuple[tuple[Measured, ...], list[str]]:
    """Return the points of a curve, and notes on changes made to them."""
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
    medians = {}
    for name in PART_TIMES:
        values = [row.numbers[name] for row in rows if name in row.numbers]
        if values:
            medians[name.removesuffix("_s")] = float(np.median(values))
    error = rows[0].numbers.get("noise")
    if len(rows) > 1:
        error = np.std(np.log(times), ddof=1) * median_error(len(rows))
    return Measured(
        nodes=int(rows[0].numbers["nodes"]),
        hosts=int(rows[0].numbers["hosts"]) if "hosts" in rows[0].numbers else None,
        batch_per_worker=rows[0].numbers["batch_per_worker"],
        step_time=float(np.median(times)),
        noise=error,
        repeats=int(sum(row.numbers["repeats"] for row in rows)),
        **medians,
    )


def _about_nodes(points: Sequence[Measured]) -> list[str]:
    """Return notes on the numbers of nodes and on superlinear speed-ups."""
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
            "an efficiency over 100 %, so intervals are wider"
        )
    return notes

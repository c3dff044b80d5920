"""Turn the rows that importers read into curves."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import repeat
from math import log, nan
from pathlib import Path
from statistics import median, stdev
from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nodewise.core.errors import UserError
from nodewise.core.files import file_sha256
from nodewise.core.intervals import median_error
from nodewise.core.schema import first_error
from nodewise.results.curves import (
    CLOCKS,
    MOST_NODES,
    TEXT_LENGTH,
    USUAL,
    Clock,
    Curve,
    Line,
    Measured,
    Measurements,
    Scaling,
    Text,
    same_batch,
)

Batch = Annotated[float, Field(ge=1e-9, le=1e15)]
Value = Annotated[float, Field(ge=1e-12, le=1e24)]
Part = Annotated[float, Field(ge=0, le=1e9)]
Count = Annotated[float, Field(ge=1, le=1e12, multiple_of=1)]


class CurveRow(BaseModel):
    """A row that an importer read: one measurement.

    A row needs one of the clocks; of several, the first is used. If it has no batch, that of the
    other rows of its curve is used, according to `scaling`.

    Attributes:
        curve: name of the curve.
        nodes: number of nodes or devices.
        hosts, devices_per_host: the machines that the devices are in.
        batch_per_worker, global_batch: examples per step, of a worker or of all.
        step_time_s, samples_per_s, epoch_time_s, steps_per_s: the clocks. `samples_per_s` is the
            throughput of all workers together.
        samples_per_s_per_device: the throughput of each worker, in place of `samples_per_s`.
        unit, unit_value: the unit of the clock in the file, and its value in seconds or per second.
        scaling: what is constant: the batch per worker (weak) or the global batch (strong).
        publisher: who published the value.
        examples: examples of an epoch.
        payload_bytes: size of one gradient.
        compute_s, wait_s, communicate_s: measured parts of a step.
        collective: a law of the step time, such as `ring` or `averaging(period=8)`.
        cluster: curves of one cluster share latency and bandwidth.
        location: the place of the row for messages, such as `curves.csv: row 7`.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    curve: Text
    nodes: Annotated[int, Field(ge=1, le=MOST_NODES)]
    hosts: Annotated[Count, Field(le=MOST_NODES)] | None = None
    devices_per_host: Annotated[float, Field(ge=1, le=MOST_NODES)] | None = None
    batch_per_worker: Batch | None = None
    global_batch: Batch | None = None
    step_time_s: Value | None = None
    samples_per_s: Value | None = None
    epoch_time_s: Value | None = None
    steps_per_s: Value | None = None
    samples_per_s_per_device: Value | None = None
    unit: Line = ""
    unit_value: Value | None = None
    scaling: Scaling = "unknown"
    publisher: Line = ""
    examples: Count | None = None
    payload_bytes: Annotated[float, Field(ge=1, le=1e15)] | None = None
    compute_s: Part | None = None
    wait_s: Part | None = None
    communicate_s: Part | None = None
    collective: Line = ""
    cluster: Line = ""
    location: Line = ""

    @property
    def clock(self) -> Clock:
        """The first clock that the row has."""
        return next(clock for clock in CLOCKS if getattr(self, clock) is not None)

    @property
    def batch(self) -> float | None:
        """Examples per step and worker, if known."""
        whole = self.global_batch
        return self.batch_per_worker or (whole and whole / self.nodes)

    @property
    def contradicts_itself(self) -> bool:
        """Whether the batches differ, or the machines cannot hold the devices."""
        batch, whole, hosts = self.batch_per_worker, self.global_batch, self.hosts
        differ = batch and whole and not same_batch(self.nodes * batch, whole, self.nodes)
        most = (hosts or 1.0) * (self.devices_per_host or MOST_NODES)
        return bool(differ or (hosts and not hosts <= self.nodes <= most))

    def step_s(self, batch: float, examples: float | None) -> float:
        """Return the time of a step; of an epoch of one example if `examples` is unknown."""
        if self.step_time_s:
            return self.step_time_s
        if self.samples_per_s:
            return batch * self.nodes / self.samples_per_s
        if self.epoch_time_s:
            return self.epoch_time_s * batch * self.nodes / (examples or 1.0)
        return 1 / (self.steps_per_s or nan)


PARTS = ("compute_s", "wait_s", "communicate_s")
_OF_CURVE = (  # columns with one value in a curve
    *("scaling", "unit", "unit_value", "collective", "cluster", "payload_bytes", "examples"),
)
MOST_POINTS = 20_000
MOST_BATCHES = 500  # most batches of curves that are fitted together; this takes up to a minute
_SUPERLINEAR = 0.97
_OVERLAP = 1.1  # if parts add up to more than this share of the step, they are not used


def check_rows(rows: pd.DataFrame, path: Path) -> list[CurveRow]:
    """Return the rows of a file, whose values may be texts.

    Raises:
        UserError: a column is missing, or a value is not allowed. The message says where.
    """
    lacking = [name for name in ("curve", "nodes") if name not in rows]
    if not {*CLOCKS, "samples_per_s_per_device"} & set(rows):
        lacking.append(" or ".join(CLOCKS))
    if lacking:
        raise UserError(
            f"{path}: does not say {', '.join(lacking)}; `nodewise import` can add what is missing"
        )
    checked = []
    for values in rows.to_dict("records"):
        known = {name: value for name, value in values.items() if not pd.isna(value)}
        place = str(known.get("location", path))
        try:
            row = CurveRow.model_validate(known | {"location": place[-TEXT_LENGTH:]})
        except ValidationError as error:
            raise UserError(f"{place}, {first_error(error)}") from None
        if each := row.samples_per_s_per_device:
            whole = {"samples_per_s": each * row.nodes, "samples_per_s_per_device": None}
            row = row.model_copy(update=whole)
        if all(getattr(row, clock) is None for clock in CLOCKS):
            raise UserError(f"{place}: has no time: {', '.join(CLOCKS)}")
        checked.append(row)
    return checked


def measurements(rows: pd.DataFrame, path: Path) -> Measurements:
    """Return the curves of a file.

    Args:
        rows: the rows that an importer read, with columns of `CurveRow`. `rows.attrs["notes"]` may
            hold notes on the whole file.
        path: the file.

    Raises:
        UserError: a column is missing, a value is not allowed, rows contradict each other, or there
            are too many points. The message says where.
    """
    by_curve: dict[str, list[CurveRow]] = {}
    for row in check_rows(rows, path):
        by_curve.setdefault(row.curve, []).append(row)
    curves = tuple(_curve(name, of_curve) for name, of_curve in by_curve.items())
    batches: Counter[tuple[bool, str]] = Counter()
    for curve in curves:
        batches[curve.cluster is None, curve.link] += len(curve.batches)
    points = sum(len(curve.measured) for curve in curves)
    if points > MOST_POINTS or max(batches.values()) > MOST_BATCHES:
        raise UserError(
            f"{path}: is too large to fit: at most {MOST_POINTS:,} points, and {MOST_BATCHES} "
            "batches of a curve, or of the curves of a cluster, are allowed; split it"
        )
    return Measurements(path.name, file_sha256(path), curves, tuple(rows.attrs.get("notes", ())))


def _curve(name: str, rows: Sequence[CurveRow]) -> Curve:
    """Return the curve of its rows.

    Raises:
        UserError: the rows contradict each other.
    """
    shared = {column: _shared(rows, column) for column in _OF_CURVE}
    clock, examples, scaling = rows[0].clock, shared["examples"], shared["scaling"]
    relative = clock == "epoch_time_s" and examples is None
    batch_known = any(row.batch for row in rows)
    points = _points(rows, scaling, examples)
    notes = []
    if places := [Path(row.location).name for row in rows if row.contradicts_itself]:
        more = f" and {len(places) - 1} more" if len(places) > 1 else ""
        notes.append(
            f"{places[0]}{more}: a global batch is not that of all devices, or machines cannot "
            "hold them"
        )
    if any(
        sum(getattr(point, part) or 0.0 for part in PARTS) > _OVERLAP * point.step_time_s
        for point in points
    ):
        points = [one.model_copy(update=dict.fromkeys(PARTS)) for one in points]
        notes.append("parts add up to more than the step: not used")
    if wrong := _contradiction(scaling, points):
        notes.append(f"scaling is {scaling}, but {wrong}: it is taken as unknown")
        del shared["scaling"]
    if shared["payload_bytes"] is None and not any(one.has_parts for one in points):
        notes.append("no payload_bytes given: it goes on as similar published curves did")
    elif not shared["collective"]:
        notes.append(f"no collective given: a {USUAL} is assumed")
    if not batch_known:
        notes.append("no batch given: steps are those of one example on each node")
    if relative:
        notes.append("no examples given: epoch times are known, but not the times of steps")
    if shared["cluster"] and (relative or shared["payload_bytes"] is None):
        missing = "examples" if relative else "payload_bytes"
        notes.append(f"no {missing} given: shares nothing with other curves of its cluster")
        del shared["cluster"]
    return Curve(
        name=name,
        batch_known=batch_known,
        publisher=rows[0].publisher,
        clock=clock,
        measured=tuple(points),
        devices_per_host=_middle(row.devices_per_host for row in rows),
        notes=(*notes, *_about_nodes(points)),
        **{column: value for column, value in shared.items() if value is not None},
    )


def _shared(rows: Sequence[CurveRow], column: str) -> Any:  # noqa: ANN401 (of any column)
    """Return the only known value of a column in a curve; None if there is none.

    Raises:
        UserError: two rows have different values.
    """
    known = [row for row in rows if getattr(row, column) not in (None, "", "unknown")]
    for row in known:
        value, first = getattr(row, column), getattr(known[0], column)
        if value != first:
            raise UserError(
                f"{row.location}, column {column}: must be the same in all rows of a curve; "
                f"it is {value} here, and {first} before"
            )
    return getattr(known[0], column) if known else None


def _middle(values: Iterable[float | None]) -> float | None:
    """Return the median of the known values; None if there is none."""
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _points(
    rows: Sequence[CurveRow], scaling: str | None, examples: float | None
) -> list[Measured]:
    """Return the points: the medians of their repeats, and `noise`, their standard error.

    Missing batches are the median of the known ones, or of the global batch with strong scaling. If
    none is known, a placeholder is used: one example per node, or a global batch of `MOST_NODES`
    examples with strong scaling.

    Raises:
        UserError: only some rows give the time of a step.
    """
    strong = scaling == "strong"
    known = [row.batch * (row.nodes if strong else 1) for row in rows if row.batch]
    usual = median(known) if known else float(MOST_NODES) if strong else 1.0
    epochs_only = all(row.clock == "epoch_time_s" for row in rows)
    repeats: dict[tuple[float, int], list[CurveRow]] = {}
    for row in rows:
        parts = row.compute_s or row.wait_s or row.communicate_s
        relative = row.clock == "epoch_time_s" and examples is None
        if relative and (parts or not epochs_only):
            raise UserError(f"{row.location}: epoch_time_s needs examples beside times of steps")
        batch = row.batch or usual / (row.nodes if strong else 1)
        repeats.setdefault((batch, row.nodes), []).append(row)
    points = []
    for (batch, nodes), alike in sorted(repeats.items()):
        times = [row.step_s(batch, examples) for row in alike]
        hosts = [int(row.hosts) for row in alike if row.hosts and row.hosts <= nodes]
        error = float(median_error(len(times)))
        points.append(
            Measured(
                nodes=nodes,
                hosts=hosts[0] if hosts else None,
                batch_per_worker=batch,
                step_time_s=median(times),
                **{part: _middle(getattr(row, part) for row in alike) for part in PARTS},
                noise=stdev(map(log, times)) * error if len(times) > 1 else None,
                repeats=len(times),
            )
        )
    return points


def _contradiction(scaling: str | None, points: Sequence[Measured]) -> str:
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


def _about_nodes(points: Sequence[Measured]) -> list[str]:
    """Return notes on the numbers of nodes and on superlinear speed-ups."""
    notes, counts = [], {point.nodes for point in points}
    if len(counts) == 1:
        notes.append("one number of nodes: computing and communication cannot be told apart")
    elif min(counts) > 1:
        notes.append("not measured on one node: one node is an extrapolation of the formula")
    alone = {point.batch_per_worker: point.step_time_s for point in points if point.nodes == 1}
    shares = [
        (point.step_time_s / alone[point.batch_per_worker], point.nodes)
        for point in points
        if point.batch_per_worker in alone
    ]
    share, nodes = min(shares, default=(1.0, 1))
    if share < _SUPERLINEAR:
        notes.append(
            f"a step takes {1 - share:.0%} less time on {nodes} nodes than on one: no formula "
            "explains an efficiency over 100 %, so intervals are wider"
        )
    return notes

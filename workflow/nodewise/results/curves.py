"""Curves: step times by nodes and batch, for one model trained with one strategy.

Importers read rows of measurements, `CurveRow`. `measurements` turns them into curves.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from nodewise.core.cell import Frozen
from nodewise.core.errors import UserError
from nodewise.core.files import file_sha256
from nodewise.core.intervals import median_error
from nodewise.core.schema import first_error
from nodewise.results.curve_units import is_per_device
from nodewise.results.record import Positive

USUAL = "ring"
"""The default collective of curves that do not name one."""

Clock = Literal["step_time_s", "samples_per_s", "epoch_time_s", "steps_per_s"]
CLOCKS: tuple[Clock, ...] = get_args(Clock)
Scaling = Literal["weak", "strong", "unknown"]
TEXT_LENGTH = 200
MOST_NODES = 65_536
_ROUNDED = 0.05
MOST_POINTS = 20_000
MOST_BATCHES = 500  # most batches of curves that are fitted together; this takes up to a minute
_SUPERLINEAR = 0.97
_SCATTERED = 0.2  # standard error of a median, from which repeats may not be alike
_OVERLAP = 1.1  # if parts add up to more than this share of the step, they are not used
TIMED_PARTS = ["compute_s", "wait_s", "communicate_s"]
_TIMES = {*CLOCKS, "samples_per_s_per_device"}
# columns with one value in a curve
_OF_CURVE = ["scaling", "unit", "unit_value", "collective", "cluster", "payload_bytes", "examples"]

Floats = NDArray[np.float64]
Seconds = Annotated[float, Field(ge=0, le=1e9)]


def _one_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must be one line of text")
    return text


Line = Annotated[str, Field(max_length=TEXT_LENGTH), AfterValidator(_one_line)]
Text = Annotated[Line, Field(min_length=1)]
Batch = Annotated[float, Field(ge=1e-9, le=1e15)]
Value = Annotated[float, Field(ge=1e-12, le=1e24)]
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
    compute_s: Seconds | None = None
    wait_s: Seconds | None = None
    communicate_s: Seconds | None = None
    collective: Line = ""
    cluster: Line = ""
    location: Line = ""


class Measured(Frozen):
    """One point of a curve: the median of `repeats` equal measurements.

    `noise` is the relative standard error of the median, if known. A node is a unit that trains a
    part of the batch. If nodes are devices of machines with several devices, `hosts` is the number
    of machines.
    """

    nodes: int = Field(ge=1, le=MOST_NODES)
    hosts: int | None = Field(default=None, ge=1)
    batch_per_worker: Positive
    step_time_s: Positive
    compute_s: Seconds | None = None
    wait_s: Seconds | None = None
    communicate_s: Seconds | None = None
    noise: Seconds | None = None
    repeats: int = Field(default=1, ge=1)


class Curve(Frozen):
    """One measured curve. Points are ordered by batch and nodes.

    Times are in seconds, with one exception: if only epochs were timed, and the number of
    `examples` of an epoch is unknown, they are times of an epoch of one example.

    Attributes that are not listed here are those of its `CurveRow`s.

    Attributes:
        clock: the column from which the times were read.
        measured: the points.
        batch_known: whether the file has batches. If not, they are placeholders: one example per
            node, or a global batch of `MOST_NODES` examples with strong scaling.
        notes: remarks for readers.
    """

    name: Text
    collective: str = USUAL
    clock: Clock
    measured: tuple[Measured, ...] = Field(min_length=1)
    cluster: Text | None = None
    unit: Line = ""
    unit_value: Positive = 1.0
    publisher: Line = ""
    scaling: Scaling = "unknown"
    batch_known: bool = True
    devices_per_host: Positive | None = None
    payload_bytes: Positive | None = None
    examples: Positive | None = None
    notes: tuple[str, ...] = ()

    @property
    def node(self) -> str:
        """The word for a node in texts for readers."""
        in_machines = self.devices_per_host and any(point.hosts for point in self.measured)
        return "device" if self.unit or in_machines else "node"

    @property
    def in_seconds(self) -> bool:
        """Whether times are in seconds."""
        return self.clock != "epoch_time_s" or self.examples is not None

    @property
    def like_published(self) -> bool:
        """Whether no more is known than of published curves: no gradient, and no part of a step."""
        parts = (getattr(point, part) for point in self.measured for part in TIMED_PARTS)
        return self.payload_bytes is None and not any(parts)

    @property
    def payload(self) -> float:
        """The payload in bytes. If unknown it is 1, and one gradient is the unit of payload."""
        return self.payload_bytes or 1.0

    @property
    def link(self) -> str:
        """The label shared by curves with the same latency and bandwidth."""
        return self.name if self.cluster is None else self.cluster

    @property
    def nodes(self) -> list[int]:
        """The measured numbers of nodes, ascending."""
        return sorted({point.nodes for point in self.measured})

    @property
    def batches(self) -> list[float]:
        """The measured batches per worker, ascending."""
        return sorted({point.batch_per_worker for point in self.measured})

    @property
    def global_batch(self) -> float | None:
        """The global batch, if points on several node counts share it; batches may be rounded."""
        points = sorted((one.nodes, one.batch_per_worker) for one in self.measured)
        nodes, batches = np.array(points, float).T
        totals = nodes * batches
        same = same_batch(totals, totals[0], nodes if self.scaling == "strong" else 0).all()
        varied = len(self.nodes) > 1 and len(self.batches) > 1
        return round(float(totals[0]), 6) if same and varied else None

    @property
    def shares_batch(self) -> bool:
        """Whether the global batch is the same for all numbers of nodes (strong scaling)."""
        return self.scaling == "strong" or self.global_batch is not None

    @property
    def per_host(self) -> float:
        """Nodes per machine: as given, else the most that were measured; 1 if unknown."""
        seen = [-(-point.nodes // point.hosts) for point in self.measured if point.hosts]
        return self.devices_per_host or float(max(seen, default=1))

    def own_value(self, step_time: Floats, nodes: Floats, batch: Floats) -> Floats:
        """Convert step times to the quantity and unit of the file.

        Arguments have equal or broadcastable shapes.
        """
        examples = nodes * batch
        if self.clock == "samples_per_s":
            value = examples / step_time / (nodes if is_per_device(self.unit) else 1.0)
        elif self.clock == "steps_per_s":
            value = 1 / step_time
        elif self.clock == "epoch_time_s":
            value = step_time * (self.examples or 1.0) / examples
        else:
            value = step_time
        return value / self.unit_value


def same_batch(one: ArrayLike, other: ArrayLike, nodes: ArrayLike) -> NDArray[np.bool_]:
    """Return whether global batches are equal, if batches per node may be rounded."""
    whole = np.asarray(other, dtype=np.float64)
    return np.asarray(np.abs(np.subtract(one, whole)) < np.maximum(nodes, _ROUNDED * whole))


@dataclass(frozen=True)
class Measurements:
    """The curves of a file, in the order of the file, and notes on the whole file."""

    source: str
    sha256: str
    curves: tuple[Curve, ...]
    notes: tuple[str, ...]


def check_rows(rows: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Return the rows of a file, whose values may be texts, with all columns of `CurveRow`.

    What is not known is NaN. Throughputs of each device are converted to those of all. `clock` is
    the first clock of a row, and `batch` the examples per step and worker, if known.

    Raises:
        UserError: a column is missing, or a value is not allowed. The message says where.
    """
    lacking = [name for name in ("curve", "nodes") if name not in rows]
    if not _TIMES & set(rows):
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
        if not _TIMES & known.keys():
            raise UserError(f"{place}: has no time: {', '.join(CLOCKS)}")
        checked.append(row.model_dump(exclude_defaults=True))
    table = pd.DataFrame(checked, columns=[*CurveRow.model_fields])
    together = table.pop("samples_per_s_per_device") * table["nodes"]
    table["samples_per_s"] = together.fillna(table["samples_per_s"])
    return table.assign(
        clock=table[[*CLOCKS]].notna().idxmax(axis=1),
        batch=table["batch_per_worker"].fillna(table["global_batch"] / table["nodes"]),
    )


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
    table = check_rows(rows, path)
    shared = table.groupby("curve")[_OF_CURVE].transform("first")
    differ = table[_OF_CURVE].notna() & (table[_OF_CURVE] != shared)
    for column in differ.columns[differ.any()]:
        place, value = table.loc[differ[column], ["location", column]].iloc[0]
        raise UserError(
            f"{place}, column {column}: must be the same in all rows of a curve; it is {value} "
            f"here, and {shared.loc[differ[column], column].iloc[0]} before"
        )
    table[_OF_CURVE] = shared
    points, doubtful = _points(table), _doubtful(table)
    by_curve = table.groupby("curve", sort=False)
    table["batch_known"] = by_curve["batch"].transform("count") > 0
    table["devices_per_host"] = by_curve["devices_per_host"].transform("max")
    curves = tuple(
        _curve(first, points[first["curve"]], doubtful.get(first["curve"], []))
        for first in table.drop_duplicates("curve").to_dict("records")
    )
    batches = Counter((one.cluster is None, one.link) for one in curves for _ in one.batches)
    count = sum(len(curve.measured) for curve in curves)
    if count > MOST_POINTS or max(batches.values()) > MOST_BATCHES:
        raise UserError(
            f"{path}: is too large to fit: at most {MOST_POINTS:,} points, and {MOST_BATCHES} "
            "batches of a curve, or of the curves of a cluster, are allowed; split it"
        )
    return Measurements(path.name, file_sha256(path), curves, tuple(rows.attrs.get("notes", ())))


def _doubtful(table: pd.DataFrame) -> dict[str, list[str]]:
    """Return the places of rows, by curve, whose batches differ or whose machines are too few."""
    nodes, whole, hosts = table["nodes"], table["global_batch"], table["hosts"]
    product = nodes * table["batch_per_worker"]
    differ = (product * whole).notna() & ~same_batch(product, whole, nodes)
    most = hosts * table["devices_per_host"].fillna(MOST_NODES)
    places = table[differ | (nodes < hosts) | (nodes > most)].groupby("curve")["location"]
    return {str(curve): [Path(place).name for place in of_curve] for curve, of_curve in places}


def _points(table: pd.DataFrame) -> dict[str, list[Measured]]:
    """Return the points of each curve: medians of repeats, and `noise`, their standard error.

    Missing batches are the median of the known ones, or of the global batch with strong scaling. If
    none is known, a placeholder is used: one example per node, or a global batch of `MOST_NODES`
    examples with strong scaling.

    Raises:
        UserError: only some rows of a curve give the time of a step.
    """
    curve, nodes, strong = table["curve"], table["nodes"], table["scaling"] == "strong"
    epochs = table["clock"] == "epoch_time_s"
    others = (table[TIMED_PARTS] > 0).any(axis=1) | ~epochs.groupby(curve).transform("all")
    unclear = table[epochs & table["examples"].isna() & others]
    if len(unclear):
        place = unclear["location"].iloc[0]
        raise UserError(f"{place}: epoch_time_s needs examples beside times of steps")
    sharing = nodes.where(strong, 1)
    usual = (table["batch"] * sharing).groupby(curve).transform("median")
    usual = usual.fillna(strong.map({True: float(MOST_NODES), False: 1.0}))
    batch = table["batch"].fillna(usual / sharing)
    step_s = (
        table["step_time_s"]
        .fillna(batch * nodes / table["samples_per_s"])
        .fillna(table["epoch_time_s"] * batch * nodes / table["examples"].fillna(1.0))
        .fillna(1 / table["steps_per_s"])
    )
    rows = table.assign(
        batch_per_worker=batch,
        step_time_s=step_s,
        log=np.log(step_s),
        hosts=table["hosts"].where(table["hosts"] <= nodes),
    )
    repeats = rows.groupby(["curve", "batch_per_worker", "nodes"])
    points = repeats[["step_time_s", *TIMED_PARTS]].median()
    points["hosts"] = repeats["hosts"].first().astype("Int64")
    points["repeats"] = repeats.size()
    points["noise"] = repeats["log"].std() * median_error(points["repeats"])
    points = points.reset_index().astype(object)
    found: dict[str, list[Measured]] = {}
    for point in points.where(points.notna(), None).to_dict("records"):
        found.setdefault(point.pop("curve"), []).append(Measured.model_validate(point))
    return found


def _curve(row: Mapping[Any, Any], points: Sequence[Measured], doubtful: Sequence[str]) -> Curve:
    """Return a curve, with notes on what it leaves open.

    `row` is its first row, and `doubtful` are the places of rows that contradict themselves.
    """
    known = {
        name: row[name] for name in Curve.model_fields if name in row and not pd.isna(row[name])
    }
    timed = [(sum(getattr(one, part) or 0.0 for part in TIMED_PARTS), one) for one in points]
    overlap = any(sum_s > _OVERLAP * one.step_time_s for sum_s, one in timed)
    if overlap:
        points = [one.model_copy(update=dict.fromkeys(TIMED_PARTS)) for one in points]
    curve = Curve(name=row["curve"], measured=tuple(points), **known)
    more = f" and {len(doubtful) - 1} more" if len(doubtful) > 1 else ""
    wrong = _contradiction(curve)
    scatter = max(one.noise or 0.0 for one in points)
    scattered = scatter > _SCATTERED
    seconds = curve.in_seconds
    missing = "payload_bytes" if seconds else "examples"
    alone = bool(curve.cluster) and not (seconds and curve.payload_bytes)
    unknown = not curve.like_published and "collective" not in known
    one_count, from_two = len(curve.nodes) == 1, 1 < curve.nodes[0] < curve.nodes[-1]
    share, nodes = _shortest(points)
    notes = {
        f"{''.join(doubtful[:1])}{more}: a global batch is not that of all devices, or machines "
        "cannot hold them": doubtful,
        "parts add up to more than the step: not used": overlap,
        f"scaling is {curve.scaling}, but {wrong}: it is taken as unknown": wrong,
        f"repeats scatter by {scatter:.0%}: are they of several runs or settings?": scattered,
        "no payload_bytes given: it goes on as similar published curves did": curve.like_published,
        f"no collective given: a {USUAL} is assumed": unknown,
        "no batch given: how many examples a step has is unknown": not curve.batch_known,
        "no examples given: epoch times are known, but not the times of steps": not seconds,
        f"no {missing} given: shares nothing with other curves of its cluster": alone,
        "one number of nodes: computing and communication cannot be told apart": one_count,
        "not measured on one node: one node is an extrapolation of the formula": from_two,
        f"a step takes {100 - 100 * share:.0f} % less time on {nodes} nodes than on one: no "
        "formula explains an efficiency over 100 %, so intervals are wider": share < _SUPERLINEAR,
    }
    changes: dict[str, Any] = {"scaling": "unknown"} if wrong else {}
    changes |= {"cluster": None} if alone else {}
    changes["notes"] = tuple(note for note, applies in notes.items() if applies)
    return curve.model_copy(update=changes)


def _contradiction(curve: Curve) -> str:
    """Return how the batches of a curve contradict its scaling; empty if they do not."""
    one_batch = 1 < len(curve.nodes) == len(curve.measured)  # on each number of nodes
    if curve.scaling == "strong" and one_batch and curve.global_batch is None:
        return "the global batch is not the same at all points"
    if curve.scaling == "weak" and curve.global_batch is not None:
        return "the global batch is the same at all points"
    return ""


def _shortest(points: Sequence[Measured]) -> tuple[float, int]:
    """Return the least step time relative to one node at the same batch, and its nodes."""
    alone = {point.batch_per_worker: point.step_time_s for point in points if point.nodes == 1}
    shares = [
        (point.step_time_s / alone[point.batch_per_worker], point.nodes)
        for point in points
        if point.batch_per_worker in alone
    ]
    return min(shares, default=(1.0, 1))

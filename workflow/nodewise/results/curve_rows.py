"""Turn the rows that importers read into curves."""

from collections.abc import Hashable, Mapping, Sequence
from itertools import repeat
from math import nan
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nodewise.core.errors import UserError
from nodewise.core.files import file_sha256
from nodewise.core.intervals import median_error
from nodewise.core.schema import first_error
from nodewise.results.curve_units import counted_in
from nodewise.results.curves import (
    CLOCKS,
    MOST_NODES,
    USUAL,
    Curve,
    Line,
    Measured,
    Measurements,
    Scaling,
    Text,
    same_batch,
)

Batch = Annotated[float, Field(ge=1e-9, le=1e15)]
Clock = Annotated[float, Field(ge=1e-12, le=1e24)]
Part = Annotated[float, Field(ge=0, le=1e9)]


class CurveRow(BaseModel):
    """A row that an importer read: one measurement, or the median of several.

    Unknown numbers are NaN, unknown texts empty. A row needs one of the clocks; of several, the
    first is used. If it has no batch, that of the other rows of its curve is used, according to
    `scaling`.

    Attributes:
        curve: name of the curve.
        nodes: number of nodes or devices.
        hosts, devices_per_host: the machines that the devices are in.
        batch_per_worker, global_batch: examples per step, of a worker or of all.
        step_time_s, samples_per_s, epoch_time_s, steps_per_s: the clocks. `samples_per_s` is the
            throughput of all workers together.
        unit, unit_value: the unit of the clock in the file, and its value in seconds or per second.
        scaling: what is constant: the batch per worker (weak) or the global batch (strong).
        publisher: who published the value.
        examples: examples of an epoch.
        payload_bytes: size of one gradient.
        compute_s, wait_s, communicate_s: measured parts of a step.
        collective: a law of the step time, such as `ring` or `averaging(period=8)`.
        cluster: curves of one cluster share latency and bandwidth.
        noise: relative standard error of a row that is the median of `repeats` measurements.
        location: the place of the row for messages, such as `curves.csv: row 7`.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    curve: Text
    nodes: Annotated[int, Field(ge=1, le=MOST_NODES)]
    hosts: Annotated[float, Field(ge=1, le=MOST_NODES, multiple_of=1)] = nan
    devices_per_host: Annotated[float, Field(ge=1, le=MOST_NODES)] = nan
    batch_per_worker: Batch = nan
    global_batch: Batch = nan
    step_time_s: Clock = nan
    samples_per_s: Clock = nan
    epoch_time_s: Clock = nan
    steps_per_s: Clock = nan
    unit: Line = ""
    unit_value: Clock = 1.0
    scaling: Scaling = "unknown"
    publisher: Line = ""
    examples: Annotated[float, Field(ge=1, le=1e12, multiple_of=1)] = nan
    payload_bytes: Annotated[float, Field(ge=1, le=1e15)] = nan
    compute_s: Part = nan
    wait_s: Part = nan
    communicate_s: Part = nan
    collective: Line = ""
    cluster: Line = ""
    noise: Part = nan
    repeats: Annotated[int, Field(ge=1)] = 1
    location: Line = ""


PARTS = ("compute", "wait", "communicate")
MOST_POINTS = 20_000
MOST_BATCHES = 500  # most batches of curves that are fitted together; this takes up to a minute
_SAME = ("scaling", "unit", "unit_value", "collective", "cluster", "payload_bytes", "examples")
_SUPERLINEAR = 0.97
_OVERLAP = 1.1  # if parts add up to more than this share of the step, some overlap
_LONGEST_PART = 1.05  # of the step; more than 1, as medians may come from different steps


def read_row(values: Mapping[Any, Any], location: str) -> CurveRow:
    """Check the values of a row. They may be texts.

    Raises:
        UserError: a value is missing or not allowed. The message says where.
    """
    try:
        row = CurveRow.model_validate(dict(values) | {"location": location[-200:]})
    except ValidationError as error:
        raise UserError(f"{location}, {first_error(error)}") from None
    if all(np.isnan(getattr(row, clock)) for clock in CLOCKS):
        raise UserError(f"{location}: has no time: {', '.join(CLOCKS)}")
    return row


def check_rows(rows: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Return the rows of a file with all columns of `CurveRow`.

    Raises:
        UserError: a column is missing, or a value is not allowed. The message says where.
    """
    lacking = [name for name in ("curve", "nodes") if name not in rows]
    if not set(CLOCKS) & set(rows):
        lacking.append(" or ".join(CLOCKS))
    if lacking:
        raise UserError(
            f"{path}: does not say {', '.join(lacking)}; `nodewise import` can add what is missing"
        )
    checked = []
    for row in rows.to_dict("records"):
        known = {name: value for name, value in row.items() if not pd.isna(value)}
        checked.append(read_row(known, str(known.pop("location", path))).model_dump())
    return pd.DataFrame(checked, columns=[*CurveRow.model_fields])


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
    table = _with_step_times(check_rows(rows, path))
    table = table.assign(**{name: _shared(table, name) for name in _SAME})
    points = _points(table)
    settings = table.assign(
        devices_per_host=table.groupby("curve")["devices_per_host"].transform("median")
    ).drop_duplicates("curve")
    of_curve = dict(iter(points.groupby("curve", sort=False)))
    curves = tuple(_curve(one, of_curve[one["curve"]]) for one in settings.to_dict("records"))
    _check_size(path, points, curves)
    notes = tuple(rows.attrs.get("notes", ()))
    return Measurements(path.name, file_sha256(path), curves, notes)


def _with_step_times(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with batches, and `step_s`, the time of a step in seconds.

    Missing batches are the median of the known ones, or of the global batch with strong scaling. If
    none is known, a placeholder is used: one example per node, or a global batch of `MOST_NODES`
    examples with strong scaling. If the examples of an epoch are unknown (`relative`), `step_s` is
    the time of an epoch of one example.

    Raises:
        UserError: the rows of a curve contradict each other.
    """
    nodes, curve = table["nodes"], table["curve"]
    strong = _shared(table, "scaling") == "strong"
    shared_by = nodes.where(strong, 1)
    known = table["batch_per_worker"].fillna(table["global_batch"] / nodes)
    usual = (known * shared_by).groupby(curve).transform("median")
    usual = usual.fillna(strong.map({True: float(MOST_NODES), False: 1.0}))
    batch = known.fillna(usual / shared_by)
    total = batch * nodes
    clock = table[[*CLOCKS]].notna().idxmax(axis="columns")
    table = table.assign(
        hosts=table["hosts"].where(table["hosts"] <= nodes),
        batch_per_worker=batch,
        batch_known=known.notna().groupby(curve).transform("any"),
        clock=clock,
        relative=(clock == "epoch_time_s") & table["examples"].isna(),
        step_s=table["step_time_s"]
        .fillna(total / table["samples_per_s"])
        .fillna(table["epoch_time_s"] * total / table["examples"].fillna(1))
        .fillna(1 / table["steps_per_s"]),
    )
    parts = table[[f"{part}_s" for part in PARTS]]
    longest = (_LONGEST_PART * table["step_s"]).where(~table["relative"], -1)
    mixed = table["relative"] & (table.groupby("curve")["relative"].transform("mean") < 1)
    for wrong, problem in (
        (parts.gt(longest, axis=0).any(axis=1), "a part is longer than the whole step"),
        (mixed, "other rows of the curve give the time of a step"),
    ):
        for place, without in zip(
            table.loc[wrong, "location"], table.loc[wrong, "relative"], strict=True
        ):
            needs = "; epoch_time_s needs examples beside it" if without else ""
            raise UserError(f"{place}: {problem}{needs}")
    return table


def _shared(table: pd.DataFrame, column: str) -> pd.Series:
    """Return, for each row, the only known value of a column in its curve.

    Raises:
        UserError: two rows of a curve have different values.
    """
    known = table[column].mask(table[column].isin(["", "unknown"]))
    shared = known.groupby(table["curve"]).transform("first")
    for at in table.index[known.notna() & (known != shared)]:
        raise UserError(
            f"{table['location'][at]}, column {column}: must be the same in all rows of a curve; "
            f"it is {known[at]} here, and {shared[at]} before"
        )
    return shared.where(shared.notna(), table[column])


def _points(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row per point: the medians of its repeats, and `noise`, their standard error."""
    grouped = table.assign(log=np.log(table["step_s"])).groupby(
        ["curve", "batch_per_worker", "nodes"], as_index=False
    )
    points = grouped.agg(
        hosts=("hosts", "first"),
        step_time=("step_s", "median"),
        **{part: (f"{part}_s", "median") for part in PARTS},
        noise=("noise", "first"),
        repeats=("repeats", "sum"),
        spread=("log", "std"),
        rows=("log", "size"),
    )
    scatter = points.pop("spread") * median_error(points.pop("rows"))
    return points.assign(noise=scatter.fillna(points["noise"]))


def _check_size(path: Path, points: pd.DataFrame, curves: Sequence[Curve]) -> None:
    links = {curve.name: (curve.cluster is None, curve.link) for curve in curves}
    batches = points.drop_duplicates(["curve", "batch_per_worker"])["curve"].map(links)
    if len(points) > MOST_POINTS or batches.value_counts().max() > MOST_BATCHES:
        raise UserError(
            f"{path}: is too large to fit: at most {MOST_POINTS:,} points, and {MOST_BATCHES} "
            "batches of a curve, or of the curves of a cluster, are allowed; split it"
        )


def _curve(settings: Mapping[Hashable, Any], points: pd.DataFrame) -> Curve:
    notes = []
    if (points[[*PARTS]].sum(axis="columns") > _OVERLAP * points["step_time"]).any():
        points = points.assign(**dict.fromkeys(PARTS, nan))
        notes.append("parts add up to more than the step, so they overlap: not used")
    measured = tuple(
        Measured(**{str(name): value for name, value in row.items() if not pd.isna(value)})
        for row in points.drop(columns="curve").astype({"hosts": "Int64"}).to_dict("records")
    )
    scaling: Scaling = settings["scaling"]
    if wrong := _contradiction(scaling, measured):
        notes.append(f"scaling is {scaling}, but {wrong}: it is taken as unknown")
        scaling = "unknown"
    unit, relative, batch_known = settings["unit"], settings["relative"], settings["batch_known"]
    if unit and batch_known and settings["clock"] == "samples_per_s" and counted_in(unit):
        notes.append(
            f"a rate in {unit}: step times and examples per second are right only if the batch is "
            f"in {counted_in(unit)}, too"
        )
    if not batch_known:
        notes.append("no batch given: steps are those of one example on each node")
    if relative:
        notes.append("no examples given: epoch times are known, but not the times of steps")
    numbers = ("payload_bytes", "examples", "unit_value", "devices_per_host")
    known = {name: settings[name] for name in numbers if not np.isnan(settings[name])}
    cluster = settings["cluster"] or None
    if cluster and (relative or "payload_bytes" not in known):
        missing = "examples" if relative else "payload_bytes"
        notes.append(f"no {missing} given: shares nothing with other curves of its cluster")
        cluster = None
    return Curve(
        name=settings["curve"],
        collective=settings["collective"] or USUAL,
        assumed=not settings["collective"],
        cluster=cluster,
        scaling=scaling,
        batch_known=batch_known,
        unit=unit,
        publisher=settings["publisher"],
        clock=settings["clock"],
        measured=measured,
        notes=(*notes, *_about_nodes(points)),
        **known,
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


def _about_nodes(points: pd.DataFrame) -> list[str]:
    """Return notes on the numbers of nodes and on superlinear speed-ups."""
    notes = []
    if points["nodes"].nunique() == 1:
        notes.append("one number of nodes: computing and communication cannot be told apart")
    elif points["nodes"].min() > 1:
        notes.append("not measured on one node: one node is an extrapolation of the formula")
    alone = points[points["nodes"] == 1].set_index("batch_per_worker")["step_time"]
    share = points["step_time"] / points["batch_per_worker"].map(alone)
    if share.min() < _SUPERLINEAR:
        nodes = points["nodes"].to_numpy()[share.argmin()]
        notes.append(
            f"a step takes {1 - share.min():.0%} less time on {nodes} nodes than on one: no "
            "formula explains an efficiency over 100 %, so intervals are wider"
        )
    return notes

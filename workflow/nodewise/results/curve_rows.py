"""Turn the rows that importers read into curves. A row is a measurement, or a median of several.

The checks and computations are the same for all importers: repeats become one point with their
median and their spread, and notes say what is doubtful.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nodewise.core.errors import UserError
from nodewise.core.files import file_sha256
from nodewise.core.intervals import median_error
from nodewise.results.csv_file import Number
from nodewise.results.curve_units import counted_in
from nodewise.results.curves import (
    CLOCKS,
    MOST_NODES,
    SCALINGS,
    TEXT_LENGTH,
    USUAL,
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
_TEXTS = [name for name, dtype in CURVE_ROWS.items() if dtype == "str"]
_PARTS = [name.removesuffix("_s") for name in PART_TIMES]


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
    table = _with_step_times(_with_all_columns(rows, path))
    points = _points(table)
    if len(points) > MOST_POINTS:
        raise UserError(f"{path}: has more than {MOST_POINTS:,} points; split it")
    of_curve = dict(iter(points.groupby("curve", sort=False)))
    settings = _settings(table)
    curves = tuple(
        _curve(str(one["curve"]), one, of_curve[one["curve"]])
        for one in settings.to_dict("records")
    )
    _check_batches(path, curves)
    notes = tuple(rows.attrs.get("notes", ()))
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
    for name in (text for text in _TEXTS if text in rows):
        texts = rows[name].fillna("").astype("str")
        for place in places[(texts.str.len() > TEXT_LENGTH) | ~texts.map(str.isprintable)]:
            raise UserError(f"{place}, column {name}: must be one short line of text")
    for place in places[rows["curve"].eq("")]:
        raise UserError(f"{place}: curve is empty; give it a name")
    for name, number in NUMBERS.items():
        if name not in rows or "unit" in rows:  # values with units are checked in their units
            continue
        for place, value in zip(places, rows[name], strict=True):
            if not (number.allows(value) or np.isnan(value)):
                raise UserError(f"{place}: {name} must be {number.allowed}, not {value:g}")
    for place in places[~rows.reindex(columns=[*CLOCKS]).notna().any(axis="columns")]:
        raise UserError(f"{place}: has no time: {', '.join(CLOCKS)}")


def _with_all_columns(rows: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Return the rows with all columns of `CURVE_ROWS`: unknown values are NaN or empty."""
    unknown = dict.fromkeys(CURVE_ROWS, np.nan) | dict.fromkeys(_TEXTS, "") | {"repeats": 1}
    unknown["location"] = str(path)
    lacking = {name: value for name, value in unknown.items() if name not in rows}
    filled = {name: value for name, value in unknown.items() if not pd.isna(value)}
    return typed(rows.assign(**lacking).fillna(filled), CURVE_ROWS)


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
    strong = _only(table, "scaling") == "strong"
    shared_by = nodes.where(strong, 1)
    known = table["batch_per_worker"].fillna(table["global_batch"] / nodes)
    usual = (known * shared_by).groupby(curve).transform("median")
    usual = usual.fillna(strong.map({True: float(MOST_NODES), False: 1.0}))
    batch = known.fillna(usual / shared_by)
    total = batch * nodes
    table = table.assign(
        batch_per_worker=batch,
        batch_known=known.notna().groupby(curve).transform("any"),
        clock=table[[*CLOCKS]].notna().idxmax(axis="columns"),
        step_s=table["step_time_s"]
        .fillna(total / table["samples_per_s"])
        .fillna(table["epoch_time_s"] * total / table["examples"].fillna(1))
        .fillna(1 / table["steps_per_s"]),
    )
    table["relative"] = (table["clock"] == "epoch_time_s") & table["examples"].isna()
    for row in table[table["relative"]].to_dict("records"):
        if not table.loc[curve == row["curve"], "relative"].all():
            raise UserError(
                f"{row['location']}, column examples: is needed beside epoch_time_s, as other "
                f"rows of curve {row['curve']!r} give the time of a step"
            )
    for name in PART_TIMES:
        for row in table[table["relative"] & table[name].notna()].to_dict("records"):
            raise UserError(f"{row['location']}, column {name}: needs examples beside epoch_time_s")
        for row in table[table[name] > _LONGEST_PART * table["step_s"]].to_dict("records"):
            raise UserError(
                f"{row['location']}, column {name}: {row[name]:g} s is more than the whole step, "
                f"{row['step_s']:.4g} s"
            )
    return table


def _only(table: pd.DataFrame, column: str) -> pd.Series:
    """Return, for each row, the only known value of a column in its curve.

    Raises:
        UserError: two rows of a curve have different values.
    """
    known = table[column].replace("", np.nan) if column in _TEXTS else table[column]
    only = known.groupby(table["curve"]).transform("first")
    for at in table.index[known.notna() & (known != only)]:
        raise UserError(
            f"{table['location'][at]}, column {column}: must be the same in all rows of a curve; "
            f"it is {known[at]} here, and {only[at]} before"
        )
    return only.fillna("") if column in _TEXTS else only


def _settings(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row per curve, with what is the same in all of its rows."""
    names = ("scaling", "unit", "collective", "cluster", "payload_bytes", "examples", "unit_value")
    hosts = table["devices_per_host"].groupby(table["curve"]).transform("median")
    same = {name: _only(table, name) for name in names}
    return table.assign(**same, devices_per_host=hosts).drop_duplicates("curve")


def _points(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row per point: the medians of its repeats, and `noise`, their standard error."""
    grouped = table.assign(log=np.log(table["step_s"])).groupby(
        ["curve", "batch_per_worker", "nodes"], as_index=False
    )
    points = grouped.agg(
        hosts=("hosts", "first"),
        step_time=("step_s", "median"),
        **{name.removesuffix("_s"): (name, "median") for name in PART_TIMES},
        noise=("noise", "first"),
        repeats=("repeats", "sum"),
        spread=("log", "std"),
        rows=("log", "size"),
    )
    scatter = points.pop("spread") * median_error(points.pop("rows"))
    return points.assign(noise=scatter.fillna(points["noise"]))


def _curve(name: str, settings: Mapping[Hashable, Any], points: pd.DataFrame) -> Curve:
    parts = points[[*_PARTS]]
    overlap = (parts.sum(axis="columns") > _OVERLAP * points["step_time"]).any()
    if overlap:
        points = points.assign(**dict.fromkeys(_PARTS, np.nan))
    measured = tuple(
        Measured(**{str(name): value for name, value in row.items() if not pd.isna(value)})
        for row in points.drop(columns="curve").astype({"hosts": "Int64"}).to_dict("records")
    )
    notes = ["parts add up to more than the step, so they overlap: not used"] if overlap else []
    scaling: Scaling = settings["scaling"] if settings["scaling"] in SCALINGS else "unknown"
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
    known = {
        column: settings[column]
        for column in ("payload_bytes", "examples", "unit_value", "devices_per_host")
        if not np.isnan(settings[column])
    }
    cluster = settings["cluster"] or None
    if cluster and (relative or "payload_bytes" not in known):
        missing = "examples" if relative else "payload_bytes"
        notes.append(f"no {missing} given: shares nothing with other curves of its cluster")
        cluster = None
    return Curve(
        name=name,
        collective=settings["collective"] or USUAL,
        assumed=not settings["collective"],
        cluster=cluster,
        scaling=scaling,
        batch_known=batch_known,
        unit=unit,
        publisher=settings["publisher"],
        clock=settings["clock"],
        measured=measured,
        notes=(*notes, *_about_nodes(measured)),
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

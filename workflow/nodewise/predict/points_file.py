"""Predict a table of points. Each point is a curve, a number of devices, and optionally a batch.

Predictions are in the quantity and the unit in which the curve was measured.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nodewise.core.errors import UserError
from nodewise.predict.answers import FAR
from nodewise.predict.curve_predictions import CurvePredictions, batch_factor, batch_of
from nodewise.predict.fit_file import FitFile
from nodewise.results.csv_file import Number, read_table
from nodewise.results.curves import MOST_NODES, Curve, same_batch

NEEDED = ("curve", "n_devices")
ADDED = ("value", "low", "high", "unit", "extrapolated", "error")
_NUMBERS = {
    "n_devices": Number(1, MOST_NODES, whole=True),
    "n_nodes": Number(1, MOST_NODES, whole=True),
    "batch_per_device": Number(1e-9, 1e15),
    "global_batch": Number(1e-9, 1e15),
}

Row = dict[str, Any]


class Point(NamedTuple):
    """A row of the file: its texts by column, and an error about the whole row, or ""."""

    texts: Mapping[str, str]
    wrong: str = ""


def read_points(path: Path) -> list[Point]:
    """Read a CSV file with the columns `NEEDED` and optional columns of batches and machines.

    A row with fewer or more values than columns gets an error in `wrong`. Lines without any column
    are skipped.

    Raises:
        UserError: the file is not CSV, or a column is missing.
    """
    header, rows = read_table(path, ragged=True)
    missing = [name for name in NEEDED if name not in header]
    if missing:
        raise UserError(f"{path}: row 1: must name columns {', '.join(NEEDED)}")
    return [_point(header, values) for _, values in rows]


def _point(header: list[str], values: list[str]) -> Point:
    texts = dict.fromkeys(header, "") | dict(zip(header, values, strict=False))
    uneven = len(values) < len(header) or any(values[len(header) :])
    return Point(texts, f"has {len(values)} values for {len(header)} columns" if uneven else "")


def predict_points(file: FitFile, points: Sequence[Point]) -> list[Row]:
    """Return one row per point, in the same order, with its own columns and the prediction.

    Added columns: `value`; `low` and `high`, the ends of the 90 % interval of another measurement;
    `unit`, empty for seconds and examples per second; and `extrapolated`, true beyond twice the
    most devices measured, or with less than half or more than twice of the measured batches.
    Invalid points have `error`, a message, instead. Columns of the file with these names are left
    out.
    """
    curves = {curve.name: curve for curve in file.curves}
    predictions = CurvePredictions(file.curves, file.fit_by_curve)
    rows: list[Row] = []
    for point in points:
        row: Row = {name: text or None for name, text in point.texts.items() if name not in ADDED}
        try:
            row |= _numbers(point)
            name = point.texts["curve"]
            if name not in curves:
                raise ValueError(f"curve {name[:60]!r} is not in the fit")
            rows.append(row | _predict(predictions, curves[name], row))
        except ValueError as error:
            rows.append(row | {"error": str(error)})
    return rows


def _numbers(point: Point) -> Row:
    """Return the numbers of a point by column.

    Raises:
        ValueError: a number is not allowed, the number of devices is missing, numbers contradict
            each other, or the whole row is invalid.
    """
    if point.wrong:
        raise ValueError(point.wrong)
    found: Row = {}
    for name, column in _NUMBERS.items():
        if text := point.texts.get(name):
            try:
                value = column.read(text)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
            found[name] = int(value) if value == int(value) else value
    if "n_devices" not in found:
        raise ValueError("n_devices: is empty")
    _check(**found)
    return found


def _check(
    n_devices: int,
    n_nodes: int | None = None,
    batch_per_device: float | None = None,
    global_batch: float | None = None,
) -> None:
    if n_nodes is not None and n_nodes > n_devices:
        raise ValueError(f"n_nodes: must be at most n_devices, {n_devices}, not {n_nodes}")
    if batch_per_device is not None and global_batch is not None:
        product = n_devices * batch_per_device
        if not same_batch(product, global_batch, n_devices):
            raise ValueError(
                f"global_batch: must be n_devices × batch_per_device, {product:.10g}, "
                f"not {global_batch:.10g}"
            )


def _predict(predictions: CurvePredictions, curve: Curve, row: Row) -> Row:
    nodes = np.array([float(row["n_devices"])])
    batch = np.array([_batch_of(curve, row)])
    times = predictions.observed(curve, nodes, batch, [row.get("n_nodes")])
    value, *sides = curve.own_value(times, nodes, batch)[:, 0].tolist()
    if not np.isfinite([value, *sides]).all():
        raise ValueError("the points of the curve say too little")
    other_batch = not np.isclose(batch_factor(curve, nodes, batch, FAR), 1)
    return {
        "value": value,
        "low": min(value, *sides),
        "high": max(value, *sides),
        "unit": curve.unit,
        "extrapolated": bool(nodes[0] > FAR * curve.nodes[-1] or other_batch),
    }


def _batch_of(curve: Curve, row: Row) -> float:
    """Return the batch per node of a point; if it has none, the one of the curve's own scaling.

    Raises:
        ValueError: its own scaling leaves less than an example for each node.
    """
    nodes = float(row["n_devices"])
    if curve.batch_known:
        if row.get("batch_per_device") is not None:
            return float(row["batch_per_device"])
        if row.get("global_batch") is not None:
            return float(row["global_batch"]) / nodes
    batch = float(batch_of(curve, np.array(nodes)))
    if batch < min(1.0, *curve.batches):
        raise ValueError(f"n_devices: must be at most the global batch, {batch * nodes:,.6g}")
    return batch

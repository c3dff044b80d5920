"""Predictions for a table of points: each is a curve, a number of devices, and maybe a batch.

Answers are in the quantity and the unit in which the curve was measured.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nodewise.core.errors import UserError
from nodewise.predict.fit_file import FitFile
from nodewise.predict.law import At
from nodewise.predict.published_curves import hosts_of, read_published, scaling_of
from nodewise.predict.similar_curves import SimilarCurves, Target
from nodewise.results.curves import MOST_NODES, Curve, Floats
from nodewise.results.importers.user_csv import Number, read_table

NEEDED = ("curve", "n_devices")
_NUMBERS = {
    "n_devices": Number(1, MOST_NODES, whole=True),
    "n_nodes": Number(1, MOST_NODES, whole=True),
    "batch_per_device": Number(1e-9, 1e15),
    "global_batch": Number(1e-9, 1e15),
}
_LEAST_S = 1e-12

Row = dict[str, Any]


def read_points(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file with the columns `NEEDED`, and maybe those of batches.

    Raises:
        UserError: it is no CSV file, or a column is missing.
    """
    header, rows = read_table(path)
    missing = [name for name in NEEDED if name not in header]
    if missing:
        raise UserError(f"{path}: row 1: must name columns {', '.join(NEEDED)}")
    return [dict(zip(header, values, strict=False)) for _, values in rows]


def predict_points(file: FitFile, points: Sequence[Mapping[str, str]]) -> list[Row]:
    """Return a row per point, in their order, with the columns of the point.

    Added are `value`, and `low` and `high`, the ends of the 90 % interval of one more measurement;
    `unit`, which is empty for seconds and examples per second; and `extrapolated`, whether that is
    more than twice as many devices as were measured. Or `error`, which says what is wrong.
    """
    curves = {curve.name: curve for curve in file.curves}
    similar = _similar_curves(file)
    rows: list[Row] = []
    for point in points:
        row: Row = {name: value or None for name, value in point.items()}
        try:
            row |= _numbers(point)
            if point["curve"] not in curves:
                raise ValueError(f"curve {point['curve'][:60]!r} is not in the fit")
            rows.append(row | _predict(file, curves[point["curve"]], row, similar))
        except ValueError as error:
            rows.append(row | {"error": str(error)})
    return rows


def _numbers(point: Mapping[str, str]) -> Row:
    """Return the numbers of a point.

    Raises:
        ValueError: one is not allowed.
    """
    found: Row = {}
    for name, column in _NUMBERS.items():
        if point.get(name):
            try:
                value = column.read(point[name])
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
            found[name] = int(value) if value == int(value) else value
    if "n_devices" not in found:
        raise ValueError("n_devices: is empty")
    return found


def _predict(file: FitFile, curve: Curve, row: Row, similar: SimilarCurves) -> Row:
    nodes = np.array([float(row["n_devices"])])
    batch = np.array([batch_of(curve, row)])
    at = At.of(nodes, batch, curve.payload)
    times = _like_published(curve, row, batch, similar)
    if times is None:
        fitted = file.fit_of(curve)
        step = fitted.evaluate(at, curve.name, curve.link)
        ends = fitted.observed_interval(at, curve.name, curve.link)
        times = np.maximum([step, *ends], _LEAST_S)
    value, *sides = curve.own_value(times, nodes, batch)[:, 0].tolist()
    if not np.isfinite([value, *sides]).all():
        raise ValueError("the points of the curve say too little")
    return {
        "value": value,
        "low": min(value, *sides),
        "high": max(value, *sides),
        "unit": curve.unit,
        "extrapolated": bool(nodes[0] > 2 * curve.nodes[-1]),
    }


def _similar_curves(file: FitFile) -> SimilarCurves:
    """Return what published curves, and the others of the file, say; nothing if no curve asks."""
    found = [scaling_of(curve) for curve in file.curves if curve.unit]
    mine = [curve for curve in found if curve is not None]
    return SimilarCurves([*read_published(), *mine] if mine else [])


def _like_published(curve: Curve, row: Row, batch: Floats, similar: SimilarCurves) -> Floats | None:
    """Return the step time and its ends as similar curves went on, or None if they do not help.

    Curves in units of their own are of the kind that is published. Where one number of devices has
    several batches, the law knows more.
    """
    points = scaling_of(curve) if curve.unit else None
    if points is None:
        return None
    devices = float(row["n_devices"])
    target = Target(devices, hosts_of(curve, devices, row.get("n_nodes")), float(batch[0]))
    efficiency = np.array(similar.predict(points, target))
    return np.asarray(batch / np.exp(efficiency))[:, None]


def batch_of(curve: Curve, row: Row) -> float:
    """Return the batch per node of a point; where it has none, as the curve's own scaling says."""
    nodes = float(row["n_devices"])
    if curve.batch_known:
        if row.get("batch_per_device") is not None:
            return float(row["batch_per_device"])
        if row.get("global_batch") is not None:
            return float(row["global_batch"]) / nodes
    last = max(curve.measured, key=lambda point: point.nodes)
    if curve.scaling == "strong":
        return last.batch_per_worker * last.nodes / nodes
    return last.batch_per_worker

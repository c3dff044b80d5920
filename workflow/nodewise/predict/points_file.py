"""Predict a table of points. Each point is a curve, a number of devices, and optionally a batch.

Predictions are in the quantity and the unit in which the curve was measured.
"""

from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, Field, ValidationError

from nodewise.core.errors import UserError
from nodewise.core.schema import first_error
from nodewise.predict.answers import FAR
from nodewise.predict.curve_predictions import CurvePredictions, batch_of, is_within
from nodewise.predict.fit import interval_of
from nodewise.predict.fit_file import FitFile
from nodewise.results.csv_file import read_table
from nodewise.results.curves import MOST_NODES, Curve, same_batch

NEEDED = ("curve", "n_devices")
ADDED = ("value", "low", "high", "unit", "extrapolated", "error")
Row = dict[str, Any]
Count = Annotated[int, Field(ge=1, le=MOST_NODES)]
Batch = Annotated[float, Field(ge=1e-9, le=1e15)]


class Point(BaseModel):
    """A point to predict."""

    curve: str
    n_devices: Count
    n_nodes: Count | None = None
    batch_per_device: Batch | None = None
    global_batch: Batch | None = None

    def batch_on(self, curve: Curve) -> float:
        """Return the batch per device; if the point has none, the curve's own scaling continues.

        Raises:
            ValueError: the numbers contradict each other, or the curve's own scaling leaves less
                than an example for each device.
        """
        each, whole, n = self.batch_per_device, self.global_batch, self.n_devices
        if self.n_nodes and self.n_nodes > n:
            raise ValueError(f"n_nodes: must be at most n_devices, {n}")
        if each and whole and not same_batch(n * each, whole, n):
            raise ValueError(f"global_batch: must be n_devices × batch_per_device, {n * each:.10g}")
        given = each or (whole or 0.0) / n
        if curve.batch_known and given:
            return given
        batch = float(batch_of(curve, np.array(float(n))))
        if batch < min(1.0, *curve.batches):
            raise ValueError(f"n_devices: must be at most the global batch, {batch * n:,.6g}")
        return batch


def read_points(path: Path) -> list[Row]:
    """Read a CSV file with the columns `NEEDED` and optional columns of batches and machines.

    Returns:
        The texts of each row by column, None where empty. A row with another number of values than
        there are columns has the key `error` as well. Lines without any column are skipped.

    Raises:
        UserError: the file is not CSV, or a column is missing.
    """
    header, rows = read_table(path, ragged=True)
    if not set(NEEDED) <= set(header):
        raise UserError(f"{path}: row 1: must name columns {', '.join(NEEDED)}")
    points: list[Row] = []
    for _, values in rows:
        texts = dict(zip_longest(header, values[: len(header)]))
        points.append({name: text or None for name, text in texts.items() if name not in ADDED})
        if len(values) < len(header) or any(values[len(header) :]):
            points[-1]["error"] = f"has {len(values)} values for {len(header)} columns"
    return points


def predict_points(file: FitFile, points: Sequence[Row]) -> list[Row]:
    """Return one row per point, in the same order, with its own columns and the prediction.

    Added columns: `value`; `low` and `high`, the ends of the 90 % interval of another measurement;
    `unit`, empty for seconds and examples per second; and `extrapolated`, true beyond twice the
    devices or batches measured, or below half of them. Invalid points have `error`, a message,
    instead. Columns of the file with these names are left out.

    Args:
        file: the fits.
        points: the texts of each point by column, as from `read_points`.
    """
    predictions = CurvePredictions(file.curves, file.fit_by_curve)
    curves = {curve.name: curve for curve in file.curves}
    answers: dict[tuple[Any, ...], Row] = {}  # tables of many rows ask the same again and again
    rows = []
    for point in points:
        asked = tuple(point.values())
        if asked not in answers:
            answers[asked] = _predict(predictions, curves, point)
        rows.append(point | answers[asked])
    return rows


def _predict(predictions: CurvePredictions, curves: dict[str, Curve], row: Row) -> Row:
    """Return the prediction of a point, or its error."""
    if "error" in row:
        return {}
    try:
        point = Point.model_validate({name: text for name, text in row.items() if text})
        if point.curve not in curves:
            raise ValueError(f"curve {point.curve[:60]!r} is not in the fit")
        curve = curves[point.curve]
        nodes, batch = np.array([float(point.n_devices)]), np.array([point.batch_on(curve)])
        times = predictions.observed(curve, nodes, batch, [point.n_nodes])
        values = curve.own_value(times, nodes, batch)[:, 0]
        if not np.isfinite(values).all():
            raise ValueError("the points of the curve say too little")
    except ValidationError as error:
        return {"error": first_error(error)}
    except ValueError as error:
        return {"error": str(error)}
    low, high = interval_of(values[1:]).tolist()
    return point.model_dump(exclude_none=True) | {
        "value": float(values[0]),
        "low": min(low, float(values[0])),
        "high": max(high, float(values[0])),
        "unit": curve.unit,
        "extrapolated": not is_within(curve, nodes, batch, FAR)[0],
    }

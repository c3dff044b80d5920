"""Answer a table of questions row by row: `nodewise forecast --cases`, `nodewise predict --at`.

Each row has an answer or an error of its own, and keeps its columns.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
import pandas as pd
from pydantic import BaseModel, Field, ValidationError, model_validator

from nodewise.core.errors import UserError
from nodewise.core.progress import progress
from nodewise.core.schema import first_error
from nodewise.predict.answers import FAR
from nodewise.predict.cluster_steps import Topology, Training, forecast_throughputs
from nodewise.predict.curve_predictions import CurvePredictions, batch_of, is_within
from nodewise.predict.fit import with_interval
from nodewise.predict.fit_file import FitFile
from nodewise.predict.forecast import topology_of, with_options
from nodewise.predict.points import Floats
from nodewise.predict.steps_to_accuracy import law_like
from nodewise.results.csv_file import read_table
from nodewise.results.curves import MOST_NODES, Batch, Curve, Text, same_batch
from nodewise.results.posted_numbers import UNITS

Row = dict[str, Any]
Amount = Annotated[float, Field(gt=0, le=1e18)]
Count = Annotated[int, Field(ge=1, le=MOST_NODES)]
_ADDED = ["value", "low", "high", "unit", "extrapolated", "error"]
_ADDED += [f"{name}{end}" for name in ("samples", "minutes") for end in ("", "_low", "_high")]
_AT_ONCE = 5_000  # points that are predicted together: their draws take 16 MB


class Question(BaseModel):
    """The columns of a row that are read. Those that are empty are not stated."""

    @model_validator(mode="before")
    @classmethod
    def _stated(cls, row: Row) -> Row:
        return {name: value for name, value in row.items() if pd.notna(value) and value != ""}


class Case(Question):
    """A machine, a training, a measured throughput, and the number of devices that is asked.

    The columns are those of `data/published/forecast/cases.csv`; and `converges_like`, a published
    benchmark, with the examples to the target at the global batch of the measured point, if known,
    and the global batch that is asked.
    """

    parameters: Amount
    precision: str | None = None
    batch_per_device: Amount | None = None
    devices_per_node: Count
    within_kind: Text | None = None
    between_gbit: Amount | None = None
    transport: Text = ""
    exchange: str | None = None
    baseline_devices: Count
    throughput_samples_per_s: Amount
    n_devices: Count
    converges_like: str | None = None
    samples_to_target: Amount | None = None
    global_batch: Amount | None = None
    global_batch_asked: Amount | None = None

    def setup(self) -> tuple[Topology, Training]:
        """Return the cluster, and the training with the measured point.

        Raises:
            UserError: a name is not known.
        """
        rate = f"{self.between_gbit:.9g}gbit-{self.transport}" if self.between_gbit else ""
        cluster = topology_of(self.devices_per_node, self.within_kind, rate.removesuffix("-"))
        shared = self.global_batch and self.global_batch / self.baseline_devices
        training = Training(
            self.parameters,
            batch=self.batch_per_device or shared,
            measured={self.baseline_devices: self.throughput_samples_per_s},
        )
        return cluster, with_options(training, precision=self.precision, exchange=self.exchange)

    def answer(self) -> Row:
        """Return the throughput, and the examples and minutes to the target if one is stated.

        Raises:
            UserError: a name is not known, or something is missing.
        """
        cluster, training = self.setup()
        asked, batches = self.global_batch_asked, None
        if asked is not None:
            if training.batch is None:
                raise UserError("global_batch: missing beside global_batch_asked")
            batches = [asked / self.n_devices]
        rates = forecast_throughputs(cluster, training, [self.n_devices], batches=batches)
        found = _with_intervals("value", rates)[0]
        known = self.global_batch and self.samples_to_target
        counts = ((self.global_batch or 0.0, self.samples_to_target or 0.0),) if known else ()
        if self.converges_like and asked and (law := law_like(self.converges_like, counts)):
            samples = law.examples([asked], len(rates) - 1)
            found |= _with_intervals("samples", samples)[0]
            found |= _with_intervals("minutes", samples / rates / 60)[0]
        return found


class Point(Question):
    """A curve of a fit, a number of devices, and optionally a batch."""

    curve: str
    n_devices: Count
    n_nodes: Count | None = None
    batch_per_device: Batch | None = None
    global_batch: Batch | None = None

    def batch_on(self, curves: Mapping[str, Curve]) -> float:
        """Return the batch per device; if the point has none, its curve's own scaling continues.

        Raises:
            UserError: the curve is unknown, the numbers contradict each other, or the curve's own
                scaling leaves less than an example for each device.
        """
        if self.curve not in curves:
            raise UserError(f"curve {self.curve[:60]!r} is not in the fit")
        curve = curves[self.curve]
        each, whole, n = self.batch_per_device, self.global_batch, self.n_devices
        if self.n_nodes and self.n_nodes > n:
            raise UserError(f"n_nodes: must be at most n_devices, {n}")
        if each and whole and not same_batch(n * each, whole, n):
            raise UserError(f"global_batch: must be n_devices × batch_per_device, {n * each:.10g}")
        given = each or (whole or 0.0) / n
        if curve.batch_known and given:
            return given
        batch = float(batch_of(curve, np.array(float(n))))
        if batch < min(1.0, *curve.batches):
            raise UserError(f"n_devices: must be at most the global batch, {batch * n:,.6g}")
        return batch


Asked = TypeVar("Asked", bound=Question)
Answer = TypeVar("Answer")


def forecast_cases(path: Path) -> list[Row]:
    """Answer a file of cases, each row by itself, in examples per second.

    Rows that state a target also have `samples` and `minutes` to it, with `_low` and `_high`.

    Raises:
        UserError: as `read_questions`.
    """
    rows, answers = read_questions(path, Case, Case.answer)
    for i, answer in answers.items():
        rows[i] |= answer
    return rows


def predict_points(file: FitFile, path: Path) -> list[Row]:
    """Answer a file of points, each row by itself, in the quantity of the point's curve.

    Intervals are those of another measurement. `extrapolated` is true beyond twice the devices or
    batches measured, or below half of them.

    Raises:
        UserError: as `read_questions`.
    """
    predictions = CurvePredictions(file.curves, file.fit_by_curve)
    curves = {curve.name: curve for curve in file.curves}
    rows, asked = read_questions(path, Point, lambda point: (point, point.batch_on(curves)))
    by_curve: dict[str, list[int]] = {}
    for i, (point, _) in asked.items():
        by_curve.setdefault(point.curve, []).append(i)
    parts = [
        (curves[name], places[start : start + _AT_ONCE])
        for name, places in by_curve.items()
        for start in range(0, len(places), _AT_ONCE)
    ]
    with progress(str(path), len(parts)) as show:
        for done, (curve, places) in enumerate(parts, 1):
            answers = _predict_points_of_curve(predictions, curve, [asked[i] for i in places])
            for i, answer in zip(places, answers, strict=True):
                rows[i] |= answer
            show(done)
    return rows


def _predict_points_of_curve(
    predictions: CurvePredictions, curve: Curve, asked: Sequence[tuple[Point, float]]
) -> Iterator[Row]:
    """Yield the answers to points of a curve, each with its batch."""
    nodes, batch = np.array([(point.n_devices, each) for point, each in asked], float).T
    times = predictions.observed(curve, nodes, batch, [point.n_nodes for point, _ in asked])
    values = curve.own_value(times, nodes, batch)
    near = is_within(curve, nodes, batch, FAR)
    known = np.asarray(np.isfinite(values).all(axis=0))
    for i, row in enumerate(_with_intervals("value", values)):
        about = asked[i][0].model_dump(exclude_none=True)
        about |= {"unit": curve.unit or UNITS[curve.clock], "extrapolated": not near[i]}
        yield about | row if known[i] else {"error": "the points of the curve say too little"}


def read_questions(
    path: Path, question: type[Asked], answer: Callable[[Asked], Answer]
) -> tuple[list[Row], dict[int, Answer]]:
    """Return the rows of a CSV file, each with its texts by column, and answers by place of a row.

    A row that is wrong, or whose answer raises UserError, has `error`, a message. Columns of the
    file that are named like those of answers are left out, and lines without any are skipped.

    Raises:
        UserError: the file is not CSV, or a column is missing.
    """
    header, lines = read_table(path, ragged=True)
    needed = [name for name, field in question.model_fields.items() if field.is_required()]
    if missing := [name for name in needed if name not in header]:
        raise UserError(f"{path}: lacks the columns {', '.join(missing)}")
    rows: list[Row] = []
    answers: dict[int, Answer] = {}
    for i, (_, values) in enumerate(lines):
        texts = zip_longest(header, values[: len(header)], fillvalue="")
        rows.append({name: text for name, text in texts if name not in _ADDED})
        try:
            if len(values) < len(header) or any(values[len(header) :]):
                raise UserError(f"has {len(values)} values for {len(header)} columns")
            answers[i] = answer(question.model_validate(rows[i]))
        except ValidationError as error:
            rows[i]["error"] = first_error(error)
        except UserError as error:
            rows[i]["error"] = str(error).removeprefix("--")
    return rows, answers


def _with_intervals(name: str, drawn: Floats) -> list[dict[str, float]]:
    """Return a quantity and its interval by names, for each point, from draws (1 + draws, points).

    The interval of `value` has the names `low` and `high`.
    """
    start = "" if name == "value" else f"{name}_"
    names = name, f"{start}low", f"{start}high"
    return [dict(zip(names, values, strict=True)) for values in with_interval(drawn).T.tolist()]

"""What a fit.json says of numbers of nodes: step times, and the best number for an objective."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from nodewise.core.errors import UserError
from nodewise.predict.curve_predictions import CurvePredictions, candidates
from nodewise.predict.fit import interval_of
from nodewise.predict.fit_file import FitFile
from nodewise.predict.law import Floats
from nodewise.predict.objective import Objective
from nodewise.predict.optimum import FAR, Optimum, find_optimum
from nodewise.predict.question import Conditions, Question
from nodewise.predict.steps_to_accuracy import NotEnoughRunsError, StepsToAccuracy, fit_counted
from nodewise.predict.wording import in_words
from nodewise.results.csv_file import Number, read_table
from nodewise.results.curves import MOST_NODES, Curve

MOST_NUMBERS = 1_000
PER_EPOCH = (
    "Times are per epoch: more nodes make the global batch larger, which may take more epochs. "
    "Give --target or --critical-batch to count them."
)
_AMOUNT = Number(1, 1e15)

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Options(Conditions):
    """What is given of a training, for all curves of a fit.json.

    Without `batch` and `global_batch` it is what was measured. `examples` of an epoch take the
    place of those of the measurements. `critical_batch` is for steps up to a factor.
    """

    critical_batch: float | None = None

    def __post_init__(self) -> None:
        if self.batch is not None and self.global_batch is not None:
            raise UserError("--batch and --global-batch: give one of them")
        if self.steps is not None and self.critical_batch is not None:
            raise UserError("--target and --critical-batch: give one of them")
        if not 0 < self.least_efficiency <= 1:
            raise UserError(f"--efficiency {self.least_efficiency:g}: must be above 0, at most 1")
        for name in ("price", "critical_batch", "watts"):
            value = getattr(self, name)
            if value is not None and not 0 < value < np.inf:
                option = name.replace("_", "-")
                raise UserError(f"--{option} {value:g}: must be a number above 0")

    def batches_of(self, curve: Curve) -> list["Options"]:
        """Return the options for each batch that is meant, with one of both batches."""
        if self.batch is not None or self.global_batch is not None:
            return [self]
        if curve.global_batch is not None:
            return [replace(self, global_batch=curve.global_batch)]
        return [replace(self, batch=batch) for batch in curve.batches]

    def nodes_of(self, nodes: Sequence[int]) -> list[int]:
        """Return those of the numbers of nodes on which each has an example at least."""
        most = self.global_batch or MOST_NODES
        if min(nodes) > most:
            raise UserError(f"--global-batch {most}: is less than an example on each node")
        return [n for n in nodes if n <= most]

    def question(self, objective: Objective, curve: Curve) -> Question:
        """Return the question for an objective.

        Raises:
            UserError: the objective needs what is not given.
        """
        steps = self.steps
        if objective.startswith("target") and steps is None:
            if self.critical_batch is None:
                raise UserError(f"--objective {objective}: needs --target or --critical-batch")
            both = np.array([[1.0, self.critical_batch]])
            steps = StepsToAccuracy(1.0, self.critical_batch, both)
        for name, needed, option in (
            ("deadline", self.deadline_s, "deadline"),
            ("energy", self.watts, "watts"),
        ):
            if objective == name and needed is None:
                raise UserError(f"--objective {objective}: needs --{option}")
        given = {field.name: getattr(self, field.name) for field in fields(Conditions)}
        given |= {"examples": self._epoch(curve) or 1.0, "steps": steps}
        return Question(
            objective,
            **given,
            unit_s=1.0 if curve.in_seconds or not steps else 1 / (self.examples or 1),
            node=curve.node,
            batch_known=curve.batch_known,
        )

    def missing(self, question: Question, curve: Curve) -> str | None:
        """Return in words what a curve lacks to answer a question; None if it lacks nothing."""
        if question.to_target:
            if not curve.batch_known:
                return "steps to an accuracy need batches, which the measurements do not have"
            in_seconds = curve.in_seconds or self.examples is not None
            lacks = not in_seconds and (self.steps is not None or self.startup_s > 0)
            return "needs --examples, to know the seconds of a step" if lacks else None
        whole = question.objective in ("deadline", "energy") or self.startup_s > 0
        if whole and question.objective != "efficiency" and self._epoch(curve) is None:
            return "needs --examples, to know the seconds of an epoch"
        return None

    def objectives(self) -> list[Objective]:
        """Return the objectives that what is given suffices for."""
        given: list[tuple[Objective, bool]] = [
            ("epoch_time", True),
            ("epoch_cost", self.price is not None),
            ("target_time", self.steps is not None or self.critical_batch is not None),
            ("target_cost", self.price is not None and self.steps is not None),
            ("deadline", self.deadline_s is not None),
            ("energy", self.watts is not None),
            ("efficiency", True),
        ]
        return [objective for objective, known in given if known]

    def unit(self, question: Question, curve: Curve) -> str:
        """Return the unit of the question's values."""
        unit = {"price": "currency", "1": ""}.get(question.unit, question.unit)
        per_example = question.objective.startswith("epoch") and self._epoch(curve) is None
        return f"{unit} per example" if per_example else unit

    def _epoch(self, curve: Curve) -> float | None:
        """Return the examples of an epoch in the curve's own times; None: unknown."""
        return (self.examples or curve.examples) if curve.in_seconds else 1.0

    def times(self, curve: Curve, per_step: Floats, examples: Floats) -> tuple[Floats, Floats]:
        """Return seconds of a step and of an epoch, NaN where unknown.

        Args:
            curve: the curve.
            per_step: its times, in its own unit.
            examples: the global batch of each.
        """
        epoch = per_step * (self._epoch(curve) or np.nan) / examples
        return per_step / (1.0 if curve.in_seconds else self.examples or np.nan), epoch


def parse_nodes(text: str) -> list[int]:
    """Return the numbers that a text such as `1-64`, `1,2,4` or `64` names, in order.

    Raises:
        UserError: it names none, or some that are not allowed.
    """
    numbers: set[int] = set()
    for part in text.split(","):
        found = re.fullmatch(r"\s*(\d{1,6})\s*(?:-\s*(\d{1,6})\s*)?", part, re.ASCII)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
        if not 1 <= first <= last <= MOST_NODES:
            raise UserError(
                f"--nodes {text[:40]}: must be numbers from 1 to {MOST_NODES:,} and ranges, "
                "such as 1-64 or 1,2,4,8-16"
            )
        numbers |= set(range(first, last + 1))
    if len(numbers) > MOST_NUMBERS:
        raise UserError(f"--nodes {text[:40]}: at most {MOST_NUMBERS:,} numbers at once")
    return sorted(numbers)


_DURATION = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}


def parse_duration(option: str, text: str) -> float:
    """Return the seconds of a text such as `90`, `90s`, `30min`, `2h` or `1d`.

    Raises:
        UserError: it is no duration above 0.
    """
    found = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*(s|min|h|d)?\s*", text, re.ASCII)
    seconds = float(found[1]) * _DURATION[found[2] or "s"] if found else 0.0
    if seconds <= 0:
        raise UserError(f"--{option} {text[:40]}: must be a time such as 90s, 30min, 2h or 1d")
    return seconds


def read_steps(path: Path) -> StepsToAccuracy:
    """Return the steps to an accuracy of a CSV file with columns global_batch and steps.

    Raises:
        UserError: the file is wrong, or has fewer than two global batches.
    """
    header, rows = read_table(path)
    if not {"global_batch", "steps"} <= set(header):
        raise UserError(f"{path}: row 1: must name columns global_batch, steps")
    columns: dict[str, list[float]] = {}
    for name in ("global_batch", "steps"):
        at = header.index(name)
        try:
            columns[name] = [_AMOUNT.read(values[at]) for _, values in rows]
        except ValueError as error:
            raise UserError(f"{path}: column {name}: {error}") from None
    try:
        return fit_counted(columns["global_batch"], columns["steps"])
    except NotEnoughRunsError as error:
        raise UserError(f"{path}: {error}") from None


def prediction_rows(
    file: FitFile, nodes: Sequence[int], options: Options, objective: Objective | None = None
) -> list[Row]:
    """Return a row per curve, batch and number of nodes.

    `low` and `high` are the ends of the 90 % interval of `step_time_s`, or of `epoch_time_s` where
    a step's seconds are unknown, as `interval_of` says. `kind` is fitted where there was such a
    point, else predicted; `outside` lists which of `nodes` and `batch` leave the measured range.
    With an objective there are `value`, `value_low`, `value_high` and `unit`, too; the first three
    are None where the points do not tell.
    """
    rows: list[Row] = []
    predictions = CurvePredictions(file)
    for curve in file.curves:
        for each in options.batches_of(curve):
            counts = each.nodes_of(nodes)
            of_line = list(_of_line(predictions, curve, each, counts))
            if objective is not None:
                question = each.question(objective, curve)
                found = _optimum(predictions, curve, each, question, counts)
                about = {"objective": objective, "unit": each.unit(question, curve)}
                of_line = [row | about | _value(found, row["nodes"]) for row in of_line]
            rows += of_line
    return rows


def _value(found: Optimum | str, nodes: int) -> Row:
    names = ("value", "value_low", "value_high")
    if isinstance(found, str):
        return dict.fromkeys(names)
    three = (found.value, found.low, found.high)
    return {name: float(each[found.at(nodes)]) for name, each in zip(names, three, strict=True)}


def _of_line(
    predictions: CurvePredictions, curve: Curve, options: Options, nodes: Sequence[int]
) -> Iterator[Row]:
    n = np.array(nodes, float)
    batch = np.full_like(n, options.batch) if options.batch else (options.global_batch or 0) / n
    value = np.maximum(predictions.evaluate(curve, n, batch), 0.0)
    low, high = interval_of(predictions.draw(curve, n, batch))
    # what is not identified at all is 0 in the fit, at the edge of what is likely
    three = (value, np.clip(low, 0.0, value), np.maximum(high, value))
    steps, epochs = zip(*(options.times(curve, times, n * batch) for times in three), strict=True)
    known = np.isfinite(steps[0]).all()
    step, epoch = steps[0], epochs[0]
    _, low, high = steps if known else epochs
    there = {(point.nodes, point.batch_per_worker) for point in curve.measured}
    for i in range(len(n)):
        yield {
            "curve": curve.name,
            "nodes": int(n[i]),
            "batch_per_worker": _number(batch[i]),
            "step_time_s": _number(step[i]),
            "samples_per_s": _number(n[i] * batch[i] / step[i]) if step[i] > 0 else None,
            "low": _number(low[i]),
            "high": _number(high[i]),
            "interval_of": "step_time_s" if known else "epoch_time_s",
            "epoch_time_s": _number(epoch[i]),
            "kind": "fitted" if (n[i], batch[i]) in there else "predicted",
            "outside": _outside(curve, n[i], batch[i]),
            "extrapolated": bool(n[i] > FAR * curve.nodes[-1]),
        }


def _number(value: float | None) -> float | int | None:
    """Return a number as JSON has it: whole numbers without a point, and none for NaN."""
    if value is None or not np.isfinite(value):
        return None
    return int(value) if value == int(value) and abs(value) < 1e15 else float(value)


def _outside(curve: Curve, nodes: float, batch: float) -> list[str]:
    ranges: dict[str, tuple[float, Sequence[float]]] = {
        "nodes": (nodes, curve.nodes),
        "batch": (batch, curve.batches),
    }
    return [name for name, (value, seen) in ranges.items() if not seen[0] <= value <= seen[-1]]


def _optimum(
    predictions: CurvePredictions,
    curve: Curve,
    options: Options,
    question: Question,
    nodes: Iterable[int],
) -> Optimum | str:
    """Return the answer to a question, or in words what the options or the curve's points lack."""
    if missing := options.missing(question, curve):
        return missing
    try:
        return find_optimum(question, predictions.times(curve, question, nodes))
    except ValueError as error:
        return str(error)


def optimum_rows(
    file: FitFile, nodes: Sequence[int], options: Options, objectives: Sequence[Objective] = ()
) -> list[Row]:
    """Return a row per curve, batch and objective: the best number of nodes, and how sure it is.

    Over several machines only full ones are compared, and what was measured.

    Without objectives there are those for which the options suffice. Where a curve's points do not
    tell, `answer` says so, and what else would be in the row is None or empty.
    """
    if not objectives:
        objectives = options.objectives()
    rows = []
    predictions = CurvePredictions(file)
    for curve in file.curves:
        for each in options.batches_of(curve):
            for objective in objectives:
                question = each.question(objective, curve)
                counts = candidates(curve, each.nodes_of(nodes))
                found = _optimum(predictions, curve, each, question, counts)
                rows.append(
                    {
                        "curve": curve.name,
                        "objective": objective,
                        "batch_per_worker": _number(question.batch),
                        "global_batch": _number(question.global_batch),
                        **_answer(found, each.unit(question, curve)),
                    }
                )
    return rows


_ANSWER = (
    *("best", "probability", "value", "low", "high", "unit", "near", "break_even", "interior"),
    *("best_anywhere", "outside", "extrapolated", "range", "answer", "nodes"),
)


def _answer(found: Optimum | str, unit: str) -> Row:
    if isinstance(found, str):
        unknown: Row = {"near": [], "answer": f"unknown: {found}.", "nodes": []}
        return dict.fromkeys(_ANSWER) | unknown
    at_best = found.at(found.best)
    return {
        "best": found.best,
        "probability": float(found.probability[at_best]),
        "value": float(found.value[at_best]),
        "low": float(found.low[at_best]),
        "high": float(found.high[at_best]),
        "unit": unit,
        "near": list(found.near),
        "break_even": found.break_even,
        "interior": found.interior,
        "best_anywhere": found.anywhere,
        "outside": found.predicted,
        "extrapolated": found.extrapolated,
        "range": list(found.range),
        "answer": in_words(found),
        "nodes": [
            {
                "nodes": int(n),
                "value": float(found.value[i]),
                "low": float(found.low[i]),
                "high": float(found.high[i]),
                "probability": float(found.probability[i]),
                "beats_one": float(found.beats_one[i]),
            }
            for i, n in enumerate(found.nodes)
        ],
    }

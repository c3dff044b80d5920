"""Predict step times and find the best number of nodes from a fit.json."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from nodewise.core.errors import UserError
from nodewise.predict.ask_options import Options
from nodewise.predict.curve_predictions import CurvePredictions, candidates
from nodewise.predict.fit import interval_of
from nodewise.predict.fit_file import FitFile
from nodewise.predict.objective import Objective
from nodewise.predict.optimum import FAR, Optimum, find_optimum
from nodewise.predict.question import Question
from nodewise.predict.wording import in_words
from nodewise.results.curves import Curve

Row = dict[str, Any]


def prediction_rows(
    file: FitFile, nodes: Sequence[int], options: Options, objective: Objective | None = None
) -> list[Row]:
    """Return one row per curve, batch and number of nodes.

    `low` and `high` are the ends of the 90 % interval of `step_time_s`, or of `epoch_time_s` if the
    seconds of a step are unknown; `interval_of` says which. `kind` is `fitted` if this point was
    measured, else `predicted`. `outside` lists which of `nodes` and `batch` are outside the
    measured range.

    With an objective, rows also have `objective`, `value`, `value_low`, `value_high` and `unit`.
    The values are None if the points do not determine them. Curves whose global batch has less than
    an example for each node have no rows.

    Args:
        file: the fits.
        nodes: the numbers of nodes.
        options: what is known about the training.
        objective: what to evaluate in addition to step times.

    Raises:
        UserError: no curve has a row.
    """
    rows: list[Row] = []
    predictions = CurvePredictions(file)
    for curve in file.curves:
        for each in options.batches_of(curve):
            if options.global_batch is None and min(nodes) > (each.global_batch or np.inf):
                continue
            counts = each.nodes_of(nodes)
            of_line = list(_of_line(predictions, curve, each, counts))
            if objective is not None:
                question = each.question(objective, curve)
                found = _optimum(predictions, curve, each, question, counts)
                about = {"objective": objective, "unit": each.unit(question, curve)}
                of_line = [row | about | _value(found, row["nodes"]) for row in of_line]
            rows += of_line
    if not rows:
        raise UserError(
            f"--nodes {min(nodes)}: is more than the examples of the largest global batch measured"
        )
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
    step, epoch = options.times(curve, value, n * batch)
    known = np.isfinite(step).all()
    below, above = interval_of(predictions.draw(curve, n, batch))
    # an unidentified coefficient can be 0 in the fit, at the edge of the draws: include the value
    ends = (np.clip(below, 0.0, value), np.maximum(above, value))
    low, high = (options.times(curve, end, n * batch)[0 if known else 1] for end in ends)
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
    """Return a number for JSON: whole numbers as int, others as float, None if not finite."""
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
    """Return the answer to a question, or a text that says which options or points are missing."""
    if missing := options.missing(question, curve):
        return missing
    try:
        return find_optimum(question, predictions.times(curve, question, nodes))
    except ValueError as error:
        return str(error)


def optimum_rows(
    file: FitFile, nodes: Sequence[int], options: Options, objectives: Sequence[Objective] = ()
) -> list[Row]:
    """Return one row per curve, batch and objective: the best number of nodes, and its probability.

    On several machines, only numbers that fill the machines, or that were measured, are compared.
    If a curve's points do not determine the answer, or no number meets the deadline, `answer` says
    so and the values of the best number are None or empty.

    Args:
        file: the fits.
        nodes: the numbers of nodes to compare.
        options: what is known about the training.
        objectives: the objectives; if empty, all for which the options suffice.
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
_NO_BEST: Row = {
    **dict.fromkeys(("best", "probability", "value", "low", "high", "outside", "extrapolated")),
    **{"near": [], "range": None},
}


def _answer(found: Optimum | str, unit: str) -> Row:
    if isinstance(found, str):
        unknown: Row = {"near": [], "answer": f"unknown: {found}.", "nodes": []}
        return dict.fromkeys(_ANSWER) | unknown
    at_best = found.at(found.best)
    answer: Row = {
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
        "answer": in_words(found, unit),
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
    return answer | _NO_BEST if found.late else answer


def remarks(
    rows: Sequence[Row], *, steps_counted: bool, default_end: int | None = None
) -> list[str]:
    """Return remarks that apply to several rows of `optimum_rows`.

    Args:
        rows: the rows.
        steps_counted: whether the steps to an accuracy are known.
        default_end: the largest number of nodes that was to be compared, if it is a default.
    """
    found = []
    weak = [row for row in rows if row["batch_per_worker"] and row["objective"] != "efficiency"]
    if weak and not steps_counted:
        found.append(
            "Times and costs are per epoch: more nodes make the global batch larger, which may "
            "take more epochs. Give --target or --critical-batch to count them."
        )
    ends = {
        row["range"][-1] if row["range"] else row["nodes"][-1]["nodes"]
        for row in rows
        if row["nodes"]
    }
    if default_end in ends:
        more = "Compare more with --nodes 1-512."
        found.append(f"{default_end} is where --nodes ends by default. {more}")
    return found

"""Answer for every curve: of a fit.json for `predict` and `optimum`, or of a study."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from nodewise.core.errors import UserError
from nodewise.predict.answers import OBJECTIVES, Answers, Job, best_batch
from nodewise.predict.curve_groups import CurveGroup, curves_of
from nodewise.predict.curve_predictions import CurvePredictions, candidates
from nodewise.predict.fit import Fit
from nodewise.predict.fit_file import FitFile
from nodewise.predict.options import MANY, MANY_EXAMPLES, Options
from nodewise.predict.steps_to_accuracy import Key, StepsToAccuracy, updates_exactly
from nodewise.results.curves import Curve

MOST_NODES = 64
_QUANTITIES = ("time", "cost", "energy", "speedup", "efficiency")

Row = dict[str, Any]
Steps = Mapping[Key, StepsToAccuracy]


def find_answers(
    file: FitFile, nodes: Sequence[int], options: Options, *, whole_machines: bool = False
) -> Iterator[tuple[Curve, Answers]]:
    """Yield the answers for each curve and batch.

    Args:
        file: the fits.
        nodes: the numbers of nodes; one node is always among those answered.
        options: what is known about the training.
        whole_machines: whether to leave out numbers that do not fill their machines.

    Raises:
        UserError: an option is missing, or no curve has an example for each of so many nodes.
    """
    predictions = CurvePredictions(file.curves, file.fit_by_curve)
    found = False
    for curve in file.curves:
        asked = candidates(curve, nodes) if whole_machines else nodes
        for batch in options.batches(curve):
            if min(asked) <= batch.get("global_batch", np.inf):
                found = True
                yield curve, predictions.answer(curve, asked, options.job(curve), **batch)
    if not found:
        raise UserError(f"--nodes {min(nodes)}: is more than the examples of the global batch")


def prediction_rows(found: Iterable[tuple[Curve, Answers]], nodes: Collection[int]) -> list[Row]:
    """Return one row per curve, batch and number of nodes; see `answers.Answers.table`.

    `low` and `high` are the ends of the 90 % interval of `step_time_s`. `kind` is `fitted` if this
    point was measured. `outside` lists which of `nodes` and `batch` are outside of the measured
    range. Values that are not known are None.
    """
    rows = []
    for curve, answers in found:
        measured = {(point.nodes, point.batch_per_worker) for point in curve.measured}
        for row in table_rows(answers):
            n, batch, step = row["nodes"], row["batch_per_worker"], row.pop("step_s")
            outside = {
                "nodes": not curve.nodes[0] <= n <= curve.nodes[-1],
                "batch": not curve.batches[0] <= batch <= curve.batches[-1],
            }
            about = {
                "curve": curve.name,
                "step_time_s": step,
                "low": row.pop("step_s_low"),
                "high": row.pop("step_s_high"),
                "samples_per_s": n * batch / step if step else None,
                "job": answers.job.name,
                "cost_unit": answers.job.units["cost"],
                "extrapolated": row["kind"] == "extrapolated",
                "outside": [name for name, is_outside in outside.items() if is_outside],
            }
            row["kind"] = "fitted" if (n, batch) in measured else "predicted"
            if n in nodes:
                rows.append(about | row)
    return rows


def optimum_rows(
    file: FitFile, nodes: Sequence[int], options: Options, objective: str | None = None
) -> list[tuple[Answers, Row]]:
    """Return the answers for each curve and batch, each with its row of the JSON output.

    `best_batch` marks the one of several batches of a curve at which the fastest number is fastest.

    Args:
        file: the fits.
        nodes: the numbers of nodes to compare.
        options: what is known about the training.
        objective: what the sentence is about. Default: the deadline or the budget if there is one,
            else the knee.

    Raises:
        UserError: there is no such objective, or it needs an option.
    """
    rows = []
    for curve, answers in find_answers(file, nodes, options, whole_machines=True):
        known = answers.objectives()
        if objective is not None and objective not in known:
            needs = f": needs --{objective.replace('energy', 'watts')}"
            wrong = needs if objective in OBJECTIVES else f": must be one of {', '.join(known)}"
            raise UserError(f"--objective {objective[:40]}{wrong}")
        default = next((name for name in ("deadline", "budget") if name in known), "knee")
        table = table_rows(answers)
        row = {
            "curve": curve.name,
            "batch_per_worker": table[-1]["batch_per_worker"],
            "global_batch": table[-1]["batch_per_worker"] * table[-1]["nodes"],
            "job": answers.job.name,
            "units": answers.job.units,
            "answer": answers.sentence(objective or default),
            "best": [vars(answers.best(name)) for name in known],
            "best_batch": False,
            "nodes": table,
        }
        rows.append((answers, row))
    for curve in file.curves:
        of_curve = [(answers, row) for answers, row in rows if row["curve"] == curve.name]
        fastest = best_batch([answers for answers, _ in of_curve], "fastest")
        for answers, row in of_curve:
            row["best_batch"] = len(of_curve) > 1 and answers is fastest
    return rows


def table_rows(answers: Answers) -> list[Row]:
    """Return the rows of the table of answers for JSON: None for what is not known."""
    rows = answers.table.to_dict("records")
    return [
        {
            str(name): value if isinstance(value, str) else _number(float(value))
            for name, value in row.items()
        }
        for row in rows
    ]


def _number(value: float) -> float | int | None:
    if not np.isfinite(value):
        return None
    return int(value) if value == int(value) and abs(value) < 1e15 else value


def optima_rows(
    group: CurveGroup, fitted: Fit, steps: Steps, listed: Iterable[int]
) -> list[dict[str, Any]]:
    """Return rows of `optima` for the curves of a group: one per batch and number of nodes.

    One to 64 nodes are compared. Rows are returned for the numbers in `listed`, for the best of
    each objective and for the smallest that is faster than one node. The answer in words is in
    the row of the knee.

    Args:
        group: the curves. Those with points on one number of nodes only have no rows.
        fitted: the fit of the group.
        steps: laws of steps to an accuracy, by model, dataset and origin of the data.
        listed: numbers of nodes that always get a row.
    """
    rows: list[dict[str, Any]] = []
    curves = [curve for curve in curves_of(group) if len(curve.nodes) > 1]
    predictions = CurvePredictions(curves, {curve.name: fitted for curve in curves})
    for curve in curves:
        mine = group.fitted.rows[group.fitted.rows["curve"] == curve.name]
        about = group.about(mine.iloc[0])
        batches: list[Row] = [{"batch": batch} for batch in curve.batches]
        batches.append({"global_batch": float((mine["batch_per_worker"] * mine["nodes"]).max())})
        for job in _jobs(mine, steps):
            for batch in batches:
                answers = predictions.answer(curve, range(1, MOST_NODES + 1), job, **batch)
                rows += [
                    about | {"held": _HELD[next(iter(batch))]} | row
                    for row in _listed(answers, listed)
                ]
    return rows


_HELD = {"batch": "batch_per_worker", "global_batch": "global_batch"}


def _jobs(rows: pd.DataFrame, steps: Steps) -> Iterator[Job]:
    """Yield an epoch, or many examples if its size is unknown; and a run if its steps are known."""
    examples = float((rows["steps_per_epoch"] * rows["batch_per_worker"] * rows["nodes"]).max())
    known = np.isfinite(examples)
    yield Job(name="epoch" if known else MANY, examples=examples if known else MANY_EXAMPLES)
    first = rows.iloc[0]
    law = steps.get((first["model"], first["dataset"], first["data_origin"]))
    if law is not None and updates_exactly(rows).all():
        yield Job(name="run", steps=law)


def _listed(answers: Answers, listed: Iterable[int]) -> Iterator[Row]:
    """Yield the rows of the table that matter, with what each is the best for."""
    if not answers.known:
        return
    best: dict[int, list[str]] = {}
    for objective in answers.objectives():
        found = answers.best(objective)
        if found.nodes is not None:
            best.setdefault(found.nodes, []).append(objective)
    faster = answers.nodes[answers.speedup[0] > 1 + 1e-9].astype(int)
    first = int(faster[0]) if len(faster) else None
    for row in answers.table.to_dict("records"):
        n = row["nodes"]
        if n in best or n in listed or n == first:
            yield {
                "job": answers.job.name,
                **{str(name): row[name] for name in row},
                "kind": "fitted" if row["kind"] == "fitted" else "predicted",
                "extrapolated": row["kind"] == "extrapolated",
                "global_batch": n * row["batch_per_worker"],
                "cost_unit": answers.job.units["cost"],
                "best_for": ", ".join(best.get(n, [])),
                "break_even": n == first,
                "answer": answers.sentence() if "knee" in best.get(n, []) else "",
            }

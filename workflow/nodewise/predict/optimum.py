"""Answer for every curve: of a fit.json for `predict` and `optimum`, or of a study."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from nodewise.core.errors import UserError
from nodewise.predict.answers import OBJECTIVES, Answers, Job, check_amount
from nodewise.predict.curve_predictions import CurvePredictions, candidates
from nodewise.predict.fit import Fit
from nodewise.predict.fit_curves import CurveGroup, curves_of
from nodewise.predict.fit_file import FitFile
from nodewise.predict.options import MANY, MANY_EXAMPLES
from nodewise.predict.steps_to_accuracy import Key, StepsToAccuracy, updates_exactly
from nodewise.results.curves import Curve

MOST_NODES = 64

Row = dict[str, Any]
Steps = Mapping[Key, StepsToAccuracy]


def find_answers(
    file: FitFile,
    nodes: Sequence[int],
    job: Job,
    *,
    batch: float | None = None,
    global_batch: float | None = None,
    whole_machines: bool = False,
) -> Iterator[tuple[Curve, Answers]]:
    """Yield the answers for each curve and batch.

    Args:
        file: the fits.
        nodes: the numbers of nodes; one node is always among those answered.
        job: what is trained, and its conditions.
        batch: examples per node and step. By default, what was measured: the global batch that all
            points of a curve share, or each batch per node.
        global_batch: examples per step of all nodes, instead of `batch`.
        whole_machines: whether to leave out numbers that do not fill their machines.

    Raises:
        UserError: an option is missing or not allowed, or no curve has an example for each of so
            many nodes.
    """
    asked = {"batch": batch, "global_batch": global_batch}
    given: Row = {name: value for name, value in asked.items() if value is not None}
    if len(given) > 1:
        raise UserError("--batch and --global-batch: give one of them")
    for name, value in given.items():
        check_amount(name, value)
    predictions = CurvePredictions(file.curves, file.fit_by_curve)
    found = False
    for curve in file.curves:
        shared = [{"global_batch": curve.global_batch}] if curve.global_batch else None
        counts = candidates(curve, nodes) if whole_machines else nodes
        for one in [given] if given else shared or [{"batch": b} for b in curve.batches]:
            if min(counts) <= one.get("global_batch", np.inf):
                found = True
                yield curve, predictions.answer(curve, counts, job.of_curve(curve), **one)
    if not found:
        raise UserError(f"--nodes {min(nodes)}: is more than the examples of the global batch")


def prediction_rows(found: Iterable[tuple[Curve, Answers]], nodes: Iterable[int]) -> list[Row]:
    """Return one row per curve, batch and number of nodes; see `answers.Answers.table`.

    `low` and `high` are the ends of the 90 % interval of `step_time_s`. Values that are not known
    are None.
    """
    names = {"step_s": "step_time_s", "step_s_low": "low", "step_s_high": "high"}
    rows = []
    for curve, answers in found:
        about = {"curve": curve.name, "job": answers.job.name}
        about["cost_unit"] = answers.job.units["cost"]
        for row in table_rows(answers):
            step_s, examples = row["step_s"], row["nodes"] * row["batch_per_worker"]
            if row["nodes"] in nodes:
                rows.append(
                    about
                    | {names.get(name, name): value for name, value in row.items()}
                    | {"samples_per_s": examples / step_s if step_s else None}
                    | {"extrapolated": row["kind"] == "extrapolated"}
                )
    return rows


def optimum_rows(
    found: Iterable[tuple[Curve, Answers]], objective: str | None = None
) -> list[tuple[Answers, Row]]:
    """Return the answers for each curve and batch, each with its row of the JSON output.

    Args:
        found: the answers, as from `find_answers`.
        objective: what the sentence is about. Default: the deadline or the budget if there is one,
            else the knee.

    Raises:
        UserError: there is no such objective, or it needs an option.
    """
    rows = []
    for curve, answers in found:
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
            "nodes": table,
        }
        rows.append((answers, row))
    return rows


def table_rows(answers: Answers) -> list[Row]:
    """Return the rows of the table of answers for JSON: None for what is not known."""
    table = answers.table.astype(object)
    finite = answers.table.replace([np.inf, -np.inf], np.nan).notna()
    rows = table.where(finite, None).to_dict("records")
    return [{str(name): value for name, value in row.items()} for row in rows]


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
        for job in _jobs(mine, steps):
            for batch in curve.batches:
                answers = predictions.answer(curve, range(1, MOST_NODES + 1), job, batch=batch)
                if answers.known:
                    rows += [about | {"job": job.name} | row for row in _listed(answers, listed)]
    return rows


def _jobs(rows: pd.DataFrame, steps: Steps) -> Iterator[Job]:
    """Yield an epoch, or many examples if its size is unknown; and a run if its steps are known."""
    examples = float((rows["steps_per_epoch"] * rows["batch_per_worker"] * rows["nodes"]).max())
    known = np.isfinite(examples)
    yield Job(name="epoch" if known else MANY, examples=examples if known else MANY_EXAMPLES)
    first = rows.iloc[0]
    law = steps.get((first["model"], first["dataset"], first["data_origin"]))
    if law is not None and updates_exactly(rows).all():
        yield Job(name="run", steps=law)


def _listed(answers: Answers, listed: Iterable[int]) -> list[Row]:
    """Return the rows of the table that matter, with what each is the best for."""
    best: dict[int | None, list[str]] = {}
    for objective in answers.objectives():
        best.setdefault(answers.best(objective).nodes, []).append(objective)
    faster = answers.nodes[answers.speedup[0] > 1 + 1e-9].astype(int)
    first = int(faster[0]) if len(faster) else None
    table = answers.table[answers.table["nodes"].isin([*best, *listed, first])]
    return [
        {str(name): value for name, value in row.items()}
        | {
            "kind": "fitted" if row["kind"] == "fitted" else "predicted",
            "extrapolated": row["kind"] == "extrapolated",
            "global_batch": row["nodes"] * row["batch_per_worker"],
            "best_for": ", ".join(best.get(row["nodes"], [])),
            "break_even": row["nodes"] == first,
            "answer": answers.sentence() if "knee" in best.get(row["nodes"], []) else "",
        }
        for row in table.to_dict("records")
    ]

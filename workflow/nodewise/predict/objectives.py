"""Find the best number of nodes of every fitted curve, for each objective.

The objectives of a curve depend on what was measured: an epoch needs its number of examples, a
target accuracy the steps to it. Costs are in node-hours, so that a price only scales them.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd

from nodewise.predict.curve_groups import CurveGroup
from nodewise.predict.fit import Fit
from nodewise.predict.law import At
from nodewise.predict.optimum import Optimum, find_optimum, find_times
from nodewise.predict.question import Question
from nodewise.predict.steps_to_accuracy import Key, StepsToAccuracy, updates_exactly
from nodewise.predict.wording import in_words

MOST_NODES = 64
_PROBABLE = 0.01

Steps = Mapping[Key, StepsToAccuracy]


def answerable(group: CurveGroup, fitted: Fit) -> CurveGroup:
    """Return the group of the curves whose points allow predictions for other numbers of nodes.

    These were fitted on several numbers of nodes, and in all draws a step on one node takes more
    than 0 s.
    """
    group = group.fitted
    if not len(fitted.draws):
        return group.where(group.rows["fitted"] & False)
    points = group.points(parts=False)
    alone = fitted.draw(At.of(1, points.batch, points.payload), points.model, points.link)
    timed = np.asarray((alone > 0).all(axis=0))
    of_curve = group.rows.assign(timed=timed).groupby("curve")
    several = of_curve["nodes"].transform("nunique") > 1
    return group.where(several & of_curve["timed"].transform("all"))


def optima_rows(
    group: CurveGroup, fitted: Fit, steps: Steps, listed: Sequence[int]
) -> list[dict[str, Any]]:
    """Return rows of `optima` for the curves of a group.

    One to 64 nodes are compared. Rows are returned for the numbers in `listed` and for all that
    matter to the answer; see `listed_rows`.

    Args:
        group: curves, as from `answerable`.
        fitted: the fit of the group.
        steps: laws of steps to an accuracy, by model, dataset and origin of the data.
        listed: numbers of nodes that always get a row.
    """
    rows: list[dict[str, Any]] = []
    for curve, of in group.rows.groupby("curve"):
        about = group.about(of.iloc[0])
        for _, alike in groupby(_questions(of, steps), lambda q: (q.batch, q.global_batch)):
            questions = list(alike)  # they have one batch: the same step times answer all
            try:
                times = find_times(
                    fitted,
                    questions[0],
                    range(1, MOST_NODES + 1),
                    payload=float(of["payload_bytes"].median()),
                    model=str(curve),
                    link=group.link,
                )
            except ValueError:  # the points do not determine step times at this batch
                continue
            for question in questions:
                rows += listed_rows(find_optimum(question, times), about, listed)
    return rows


def _questions(rows: pd.DataFrame, steps: Steps) -> Iterator[Question]:
    """Yield the questions that the points of a curve can answer."""
    global_batches = rows["batch_per_worker"] * rows["nodes"]
    examples = (rows["steps_per_epoch"] * global_batches).max()
    first = rows.iloc[0]
    key = (first["model"], first["dataset"], first["data_origin"])
    law = steps.get(key) if updates_exactly(rows).all() else None
    if pd.notna(examples):
        yield Question("epoch_time", global_batch=float(global_batches.max()), examples=examples)
    for batch in sorted(rows["batch_per_worker"].unique()):
        if pd.notna(examples):
            yield Question("epoch_time", batch=float(batch), examples=examples)
            yield Question("epoch_cost", batch=float(batch), examples=examples)
        yield Question("efficiency", batch=float(batch))
        if law is not None:
            yield Question("target_time", batch=float(batch), steps=law)


def listed_rows(
    optimum: Optimum, about: Mapping[str, Any], listed: Sequence[int]
) -> Iterator[dict[str, Any]]:
    """Yield rows of `optima`: for the numbers of nodes in `listed` and all others that matter.

    A number matters if it is the best, within 5 % of the best, the break-even, or the best with a
    probability of 1 % or more. `kind` is `fitted` within the measured range, else `predicted`. At a
    fixed global batch, `batch_per_worker` may be fractional. The answer in words is only in the row
    of the best number. It says the value only within the measured range: beyond it, the interval is
    that of the formula, which may be wrong there.

    Args:
        optimum: the answer to a question.
        about: columns that all rows begin with.
        listed: numbers of nodes that always get a row.
    """
    question = optimum.question
    batches = question.batches(optimum.nodes)
    for i, nodes in enumerate(optimum.nodes.tolist()):
        best, near = nodes == optimum.best, nodes in optimum.near
        break_even, probability = nodes == optimum.break_even, float(optimum.probability[i])
        matters = best or near or break_even or nodes in listed or probability >= _PROBABLE
        if not matters:
            continue
        yield {
            **about,
            "objective": question.objective,
            "held": "global_batch" if question.batch is None else "batch_per_worker",
            "batch_per_worker": float(batches[i]),
            "global_batch": question.global_batch or float(batches[i] * nodes),
            "nodes": nodes,
            "value": float(optimum.value[i]),
            "low": float(optimum.low[i]),
            "high": float(optimum.high[i]),
            "unit": question.unit,
            "probability": probability,
            "beats_one": float(optimum.beats_one[i]),
            "sure": optimum.best_probability if best else np.nan,
            "best": best,
            "near": near,
            "break_even": break_even,
            "interior": optimum.interior,
            "kind": "fitted" if optimum.measured[i] else "predicted",
            "answer": in_words(optimum, valued=bool(optimum.measured[i])) if best else "",
        }

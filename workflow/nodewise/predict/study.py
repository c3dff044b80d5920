"""Build the tables of a study's fits, and of their errors on held-out node counts.

Points are held out by node count, never by repeat: further repeats of a fitted point would say
little about a law.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from nodewise.predict.answers import Answers, TrainingJob
from nodewise.predict.curve_predictions import CurvePredictions
from nodewise.predict.fit import Fit, interval_of
from nodewise.predict.fit_curves import CURVE, LINE, CurveGroup, curves_of
from nodewise.predict.fit_file import FittedCurves
from nodewise.predict.points import Points
from nodewise.predict.steps_to_accuracy import BY_EPOCHS, KEY, StepsToAccuracy, updates_exactly
from nodewise.results.columns import FIT_COLUMNS
from nodewise.results.table_files import typed

NODES = (*range(1, 11), 12, 16, 24, 32, 48, 64)
LARGEST = "largest node count left out"
EACH = "each node count left out in turn"
_LEAST_NODE_COUNTS = 3  # two to fit, and one to hold out

StepLaws = Mapping[tuple[str, ...], StepsToAccuracy]
_OF_CURVE = ["experiment", "curve", "model"]


def fitted_tables(
    found: Sequence[tuple[CurveGroup, Fit]], steps: Sequence[dict[str, Any]] = ()
) -> dict[str, pd.DataFrame]:
    """Return the tables of fits. The same laws, fitted again, are judged on held-out points.

    Args:
        found: the fits of a study.
        steps: rows of `steps_to_accuracy`, with their laws.
    """
    by_epochs = [row for row in steps if row["basis"] == BY_EPOCHS and row["law"]]
    laws = {tuple(row[name] for name in KEY): row["law"] for row in by_epochs}
    rows: dict[str, list[Any]] = {name: [] for name in FIT_COLUMNS}
    for group, fitted in found:
        rows["fits"] += fit_rows(group, fitted)
        rows["predictions"] += prediction_rows(group, fitted)
        rows["optima"] += optima_rows(group, fitted, laws)
        rows["trials"] += trial_rows(group, draws=len(fitted.draws) - 1)
    rows["steps_to_accuracy"] = [*steps]
    return {name: typed(of_table, FIT_COLUMNS[name]) for name, of_table in rows.items()}


def judge(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the errors by source and scenario.

    `curves` counts lines, which are one batch of one curve. `covered` is the share of points within
    their 90 % intervals.
    """
    rows = trials.assign(
        line=trials["curve"] + "|" + trials["batch_per_worker"].astype(str),
        covered=trials["observed_s"].between(trials["low_s"], trials["high_s"]),
    )
    return rows.groupby(["source", "scenario", "trained"], sort=False, as_index=False).agg(
        curves=("line", "nunique"),
        points=("error", "size"),
        median_error=("error", "median"),
        mean_error=("error", "mean"),
        worst_error=("error", "max"),
        covered=("covered", "mean"),
    )


def fit_rows(group: CurveGroup, fitted: Fit) -> list[dict[Any, Any]]:
    """Return rows of `fits`: one per coefficient."""
    curves = group.rows.drop_duplicates("curve").set_index("curve", drop=False)
    of_curve = curves[_OF_CURVE].to_dict("index")
    about = group.rows[["source", "data_origin", "study", "strategy"]].iloc[0].to_dict()
    about |= {"link": group.link, "law": group.law.name, "settings": json.dumps(group.law.values)}
    about |= {"points": fitted.count, "noise": fitted.noise}
    return [
        about
        | of_curve.get(one.of, dict.fromkeys(_OF_CURVE, ""))
        | {"parameter": one.name}
        | one.model_dump(exclude={"name", "of", "draws"})
        for one in FittedCurves.of_fit(fitted, curves_of(group)).coefficients
    ]


def prediction_rows(group: CurveGroup, fitted: Fit) -> Iterator[dict[Any, Any]]:
    """Yield rows of `predictions` for each timed batch of each curve.

    They are for `NODES` and all observed numbers of nodes.
    """
    for (name, _), line in group.rows[group.rows["timed"]].groupby(LINE):
        curve, batch = str(name), int(line["batch_per_worker"].iloc[0])
        nodes = np.union1d(np.array(NODES, float), line["nodes"].to_numpy(float))
        payload = float(line["payload_bytes"].median())
        points = Points.of(nodes, batch, payload, model=curve, link=group.link)
        drawn = fitted.draw(points)
        low, high = interval_of(drawn)
        times = {"fitted_s": drawn[0], "low_s": low, "high_s": high}
        seen = line.rename(columns={"step_time_s": "observed_s"}).set_index("nodes")
        rows = pd.DataFrame(times, index=pd.Index(nodes.astype(int), name="nodes"))
        rows = rows.join(seen[["observed_s", "fitted"]]).reset_index()
        rows = rows.assign(
            **line[[*CURVE, "data_origin"]].iloc[0],
            batch_per_worker=batch,
            law=group.law.name,
            fitted=rows["fitted"].eq(True),
            error=np.abs(rows["fitted_s"] / rows["observed_s"] - 1),
            beyond=~(rows["nodes"] <= line.loc[line["fitted"], "nodes"].max()),
        )
        yield from rows.to_dict("records")


def optima_rows(group: CurveGroup, fitted: Fit, steps: StepLaws) -> list[dict[Any, Any]]:
    """Return rows of `optima` for the curves of a group: one per batch and number of nodes.

    One to 64 nodes are compared. Rows are returned for `NODES`, for the best of each objective and
    for the smallest number that is faster than one node.

    Args:
        group: the curves. Those with points on one number of nodes only have no rows.
        fitted: the fit of the group.
        steps: laws of steps to an accuracy, by model, dataset and origin of the data.
    """
    rows: list[dict[Any, Any]] = []
    curves = [curve for curve in curves_of(group) if len(curve.nodes) > 1]
    predictions = CurvePredictions(curves, {curve.name: fitted for curve in curves})
    for curve in curves:
        mine = group.fitted.rows[group.fitted.rows["curve"] == curve.name]
        about: dict[Any, Any] = mine[CURVE].iloc[0].to_dict()
        for job in _jobs(mine, steps):
            for batch in curve.batches:
                answers = predictions.answer(curve, range(1, NODES[-1] + 1), job, batch=batch)
                if answers.known:
                    rows += [about | {"job": job.name} | row for row in _listed(answers)]
    return rows


def _jobs(rows: pd.DataFrame, steps: StepLaws) -> Iterator[TrainingJob]:
    """Yield an epoch, or many examples if its size is unknown; and a run if its steps are known."""
    examples = float((rows["steps_per_epoch"] * rows["batch_per_worker"] * rows["nodes"]).max())
    yield TrainingJob().with_examples(examples if np.isfinite(examples) else None)
    law = steps.get(tuple(rows.iloc[0][KEY]))
    if law is not None and updates_exactly(rows).all():
        yield TrainingJob(name="run", steps=law)


def _listed(answers: Answers) -> list[dict[str, Any]]:
    """Return the rows of the table that matter, with what each is the best for."""
    faster = answers.nodes[answers.speedup[0] > 1 + 1e-9].astype(int)
    first = int(faster[0]) if len(faster) else None
    return [
        row | {"best_for": ", ".join(best), "break_even": row["nodes"] == first}
        for row in answers.rows()
        if (best := [name for name, n in answers.best_for.items() if n == row["nodes"]])
        or row["nodes"] in (first, *NODES)
    ]


def trial_rows(group: CurveGroup, draws: int) -> Iterator[dict[Any, Any]]:
    """Yield rows of `trials`: held-out points, as predicted with intervals of another measurement.

    Lines (one batch of one curve) with three or more node counts take part. The law is fitted to
    all remaining points of the group together.
    """
    group = group.fitted
    nodes, counts = group.rows["nodes"], group.rows.groupby(LINE)["nodes"]
    enough = counts.transform("nunique") >= _LEAST_NODE_COUNTS
    left_out = [(EACH, enough & (nodes == n)) for n in sorted(nodes[enough].unique())]
    if left_out:
        left_out.insert(0, (LARGEST, enough & (nodes == counts.transform("max"))))
    for scenario, mask in left_out:
        rest, asked = group.where(~mask), group.where(mask)
        fitted, points = rest.fit(draws), asked.points()
        drawn = fitted.add_noise(fitted.draw(points))
        low, high = interval_of(drawn)
        rows = asked.rows[[*CURVE, "batch_per_worker", "nodes"]]
        trained: pd.Series[str] | str = ""
        if scenario == LARGEST:
            known = rest.rows.groupby(LINE)["nodes"].agg(lambda n: ", ".join(map(str, sorted(n))))
            trained = rows[LINE].join(known, on=LINE)["nodes"] + " → " + rows["nodes"].astype(str)
        rows = rows.assign(
            scenario=scenario,
            trained=trained,
            observed_s=points.step_s,
            predicted_s=drawn[0],
            error=np.abs(drawn[0] / points.step_s - 1),
            law=fitted.law.name,
            low_s=low,
            high_s=high,
        )
        yield from rows.to_dict("records")

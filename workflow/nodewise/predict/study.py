"""Build the tables of a study's fits and of their validation."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nodewise.predict import bottleneck, judge
from nodewise.predict.answers import Answers, Job
from nodewise.predict.curve_predictions import CurvePredictions
from nodewise.predict.fit import DRAWS, Fit, interval_of
from nodewise.predict.fit_curves import CurveGroup, FittedGroup, curves_of, groups_to_fit
from nodewise.predict.judge import relative_error
from nodewise.predict.law import Parameter
from nodewise.predict.options import MANY, MANY_EXAMPLES
from nodewise.predict.points import Points
from nodewise.predict.steps_to_accuracy import BY_EPOCHS, KEY, StepsToAccuracy, updates_exactly
from nodewise.results.calibration import Calibration
from nodewise.results.columns import OVERHEAD
from nodewise.results.curve_points import IMPORTED
from nodewise.results.table_files import read_file, typed, write_csv

ALL_POINTS = "all points"
OVERSUBSCRIBED = "oversubscribed, not fitted"
POORLY = "poorly constrained by the data"
UNTIMED = "points without step time or payload left out"
CROWDED = "oversubscribed points not fitted"
UNKNOWN_PAYLOAD = "s per gradient"
NODES = (*range(1, 11), 12, 16, 24, 32, 48, 64)
MOST_NODES = NODES[-1]

FITTED = (
    *("fits", "predictions", "diagnosis"),
    *("optima", "steps_to_accuracy"),
)
"""The tables of fits. The tables of their validation are `trials` and `judgement`."""

Steps = Mapping[tuple[str, ...], StepsToAccuracy]
_SHARED = {"experiment": "", "curve": "", "model": ""}


def fitted_tables(
    found: Sequence[FittedGroup], steps: Sequence[dict[str, Any]] = ()
) -> dict[str, pd.DataFrame]:
    """Return the tables of `FITTED`.

    Predictions are made for `NODES` and all observed node counts, at each batch that was timed.
    `beyond` marks predictions on more nodes than any fitted point.

    Args:
        found: the fits of a study.
        steps: rows of `steps_to_accuracy`, with their laws.
    """
    by_epochs = [row for row in steps if row["basis"] == BY_EPOCHS and row["law"]]
    laws = {tuple(row[name] for name in KEY): row["law"] for row in by_epochs}
    rows: dict[str, list[Any]] = {name: [] for name in FITTED}
    for group, fitted in found:
        rows["fits"] += fit_rows(group, fitted)
        rows["predictions"] += prediction_rows(group, fitted)
        points = group.fitted
        rows["diagnosis"].append(bottleneck.diagnose(points.rows, fitted, points.points()))
        rows["optima"] += optima_rows(group, fitted, laws)
    rows["steps_to_accuracy"] = [*steps]
    return {name: _table(rows[name], name) for name in FITTED}


def judge_study(
    points: pd.DataFrame, calibrations: Iterable[Calibration] = (), *, draws: int = DRAWS
) -> dict[str, pd.DataFrame]:
    """Return the tables `trials` and `judgement`: the same fits, judged on held-out points.

    Arguments and errors are those of `fit_curves`. Unlike there, no fit has priors from another
    group of its link.
    """
    rows: list[pd.DataFrame] = []
    for group, priors in groups_to_fit(points, calibrations):
        rows += judge.try_held_out(group, priors, draws)
    trials = _table(rows, "trials")
    return {"trials": trials, "judgement": judge.judge(trials)}


def _table(parts: Sequence[Any], name: str) -> pd.DataFrame:
    """Return a table of `OVERHEAD` from its rows, or from tables of them."""
    tables = bool(parts) and isinstance(parts[0], pd.DataFrame)
    return typed(pd.concat(parts) if tables else parts, OVERHEAD[name])


def write(tables: dict[str, pd.DataFrame], out_dir: Path) -> None:
    """Write each table to `NAME.csv` atomically."""
    for name, table in tables.items():
        write_csv(table, out_dir / f"{name}.csv")


def read_overhead(overhead_dir: Path) -> dict[str, pd.DataFrame]:
    """Read the tables that `write` wrote, as CSV.

    Raises:
        UserError: a file is missing, is not CSV, lacks a column, or holds an invalid value.
    """
    return {name: read_file(overhead_dir / f"{name}.csv", OVERHEAD[name]) for name in OVERHEAD}


def fit_rows(group: CurveGroup, fitted: Fit) -> list[dict[str, Any]]:
    """Return rows of `fits`: one per coefficient."""
    parameters = {p.name: p for p in group.law.parameters}
    first = group.first
    curves = group.rows.drop_duplicates("curve").set_index("curve", drop=False)
    of_curve: dict[Any, dict[Any, Any]] = curves[[*_SHARED]].to_dict("index")
    rows = []
    for name, label in fitted.coefficients:
        low, high = fitted.interval(name, label)
        rows.append(
            {
                "source": first["kind"],
                "data_origin": first["data_origin"],
                "link": group.link,
                "study": first["study"],
                **of_curve.get(label, _SHARED),
                "strategy": first["strategy"],
                "law": group.law.name,
                "settings": json.dumps(vars(group.law)),
                "parameter": name,
                "meaning": parameters[name].meaning,
                "unit": _unit(group, parameters[name]),
                "value": fitted.value(name, label),
                "low": low,
                "high": high,
                "points": fitted.count,
                "noise": fitted.noise,
                "note": _note(group, fitted, name, label),
            }
        )
    return rows


def _unit(group: CurveGroup, parameter: Parameter) -> str:
    """Return the unit of a coefficient.

    An imported file may not give the size of a gradient. Its inverse bandwidth is then per
    gradient instead of per byte.
    """
    unknown = group.rows["kind"].eq(IMPORTED) & group.rows["payload_bytes"].eq(1)
    return UNKNOWN_PAYLOAD if parameter.unit == "s/B" and unknown.any() else parameter.unit


def _note(group: CurveGroup, fitted: Fit, name: str, label: str) -> str:
    """Return a note: whether the coefficient is poorly determined, and which points were left out.

    The note is empty if neither applies.
    """
    untimed = int((~group.rows["timed"]).sum())
    crowded = int((group.rows["timed"] & ~group.rows["fitted"]).sum())
    notes = {
        POORLY: not fitted.identified(name, label),
        f"{UNTIMED}: {untimed}": untimed,
        f"{CROWDED}: {crowded}": crowded,
    }
    return "; ".join(note for note, applies in notes.items() if applies)


def prediction_rows(group: CurveGroup, fitted: Fit) -> list[pd.DataFrame]:
    """Return rows of `predictions`: those of the fit, and those of oversubscribed points."""
    tables: list[pd.DataFrame] = []
    lines = group.rows[group.rows["timed"]].groupby(["curve", "batch_per_worker"])
    for _, line in lines:
        about = group.about(line.iloc[0]) | {
            "batch_per_worker": int(line["batch_per_worker"].iloc[0]),
            "payload_bytes": float(line["payload_bytes"].median()),
        }
        fitted_s = line[line["fitted"]].set_index("nodes")["step_time_s"]
        crowded = line[~line["fitted"]].set_index("nodes")["step_time_s"]
        nodes = np.union1d(np.array(NODES, float), line["nodes"].to_numpy(float))
        at = about["batch_per_worker"], about["payload_bytes"]
        points = Points.of(nodes, *at, model=str(about["curve"]), link=group.link)
        table = _predicted(fitted, points).assign(**about)
        table["beyond"] = ~(table["nodes"] <= (fitted_s.index.max() if len(fitted_s) else 0))
        for scenario, observed in ((ALL_POINTS, fitted_s), (OVERSUBSCRIBED, crowded)):
            rows = table.assign(observed_s=table["nodes"].map(observed), scenario=scenario)
            if scenario == OVERSUBSCRIBED:
                rows = rows.dropna(subset="observed_s")
            rows["error"] = relative_error(rows["fitted_s"], rows["observed_s"])
            tables.append(rows)
    return tables


def _predicted(fitted: Fit, points: Points) -> pd.DataFrame:
    low, high = interval_of(fitted.draw(points))
    times = {
        "nodes": points.nodes.astype(int),
        "fitted_s": fitted.evaluate(points),
        "low_s": low,
        "high_s": high,
    }
    parts = bottleneck.law_parts(fitted, points)
    return pd.DataFrame(times | {f"{name}_s": part for name, part in parts.items()})


def optima_rows(group: CurveGroup, fitted: Fit, steps: Steps) -> list[dict[str, Any]]:
    """Return rows of `optima` for the curves of a group: one per batch and number of nodes.

    One to 64 nodes are compared. Rows are returned for `NODES`, for the best of each objective and
    for the smallest number that is faster than one node. The answer in words is in the row of the
    knee.

    Args:
        group: the curves. Those with points on one number of nodes only have no rows.
        fitted: the fit of the group.
        steps: laws of steps to an accuracy, by model, dataset and origin of the data.
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
                    rows += [about | {"job": job.name} | row for row in _listed(answers)]
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


def _listed(answers: Answers) -> list[dict[str, Any]]:
    """Return the rows of the table that matter, with what each is the best for."""
    faster = answers.nodes[answers.speedup[0] > 1 + 1e-9].astype(int)
    first = int(faster[0]) if len(faster) else None
    rows = []
    for row in answers.rows():
        nodes, best = row["nodes"], answers.best_for.get(row["nodes"], [])
        if best or nodes == first or nodes in NODES:
            row["kind"] = "fitted" if row["kind"] == "fitted" else "predicted"
            told = {"best_for": ", ".join(best), "break_even": nodes == first}
            rows.append(row | told | {"answer": answers.sentence() if "knee" in best else ""})
    return rows

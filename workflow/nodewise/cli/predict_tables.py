"""Rows of the tables that `nodewise fit`, `predict`, `optimum` and `forecast` print."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from nodewise.core.units import write_duration, write_number, write_plain
from nodewise.predict.answers import STEP_TIME, TITLES, Answers, Job, write_chance
from nodewise.predict.fit_file import FitFile

Row = dict[str, str]

_LISTED = 8  # numbers of nodes or batches that a table lists one by one
_OF_FORECAST = STEP_TIME | {"nodes": "devices", "batch_per_worker": "batch_per_device"}


def curves_rows(file: FitFile) -> Iterator[Row]:
    """Yield what was fitted to each curve."""
    laws = {name: group for group in file.fits for name in group.curves}
    for curve in file.curves:
        yield {
            "Curve": curve.name,
            "Points": f"{len(curve.measured)}",
            "Nodes": _listed(curve.nodes),
            "Batches": _listed(curve.batches),
            "Continued by": "published curves" if curve.like_published else laws[curve.name].law,
            "Noise": write_number(laws[curve.name].noise, "share"),
        }


def answers_rows(
    answers: Answers, nodes: Collection[int] = (), *, marks: bool = False
) -> Iterator[Row]:
    """Yield the answers for each number of nodes.

    Args:
        answers: the answers.
        nodes: the numbers to show. Default: the powers of two, the last and the best ones.
        marks: whether to mark the best number of each objective.
    """
    best, last = answers.best_for if marks else {}, int(answers.nodes[-1])
    shown = set(nodes) or {*best, last, *(2**i for i in range(last.bit_length()))}
    for row in answers.rows():
        if row["nodes"] in shown:
            titles = ", ".join(TITLES[name] for name in best.get(row["nodes"], []))
            yield _answer(row, answers.job) | {"Best": titles, "Kind": row["kind"]}


def machines_rows(rows: Sequence[Mapping[str, Any]], job: Job) -> Iterator[Row]:
    """Yield the rows of `compare_machines`, whose machines have prices."""
    job = replace(job, price=1.0, currency=rows[0]["currency"], node="device")
    for row in rows:
        shown = dict(row) | {name: row[other] for name, other in _OF_FORECAST.items()}
        machines = {"Machines": f"{row['machines']} × {row['machine']}"}
        yield machines | _answer(shown, job) | {"Best": "best" if row["best"] else ""}


def best_machines(rows: Sequence[Mapping[str, Any]], job: Job) -> str:
    """Return what is best in the rows of `compare_machines`, in one sentence."""
    row = next((row for row in rows if row["best"]), None)
    if row is None:
        return "None of these machines keeps the deadline and the budget."
    goal = "fastest" if job.budget and not job.deadline_s else "cheapest"
    cost = f"{write_plain(row['cost'])} {row['currency']}"
    sure = f", chance {write_chance(row['chance'])}" if job.deadline_s or job.budget else ""
    told = f"{write_duration(row['time'])}, {cost}{sure}"
    return f"{row['machines']} × {row['machine']} is the {goal}: {told}."


def _answer(row: Mapping[str, Any], job: Job) -> Row:
    """Return a row of answers. Columns that are empty in all rows are not printed."""
    time, cost = ("time to target", "Cost to target") if job.steps else (job.name, "Cost")
    step, batch = row["step_s"], row["batch_per_worker"]
    limited = job.deadline_s is not None or job.budget is not None
    return {
        f"{job.node.title()}s": f"{row['nodes']:,}",
        "Batch": f"{batch:,.6g}" if batch and (step or batch != 1) else "",
        "Step": "" if step is None else write_number(step, "s"),
        "Examples": write_plain(row["samples"]) if job.steps else "",
        time[0].upper() + time[1:]: write_duration(row["time"]),
        "90 % interval": " – ".join(write_duration(row[f"time_{end}"]) for end in ("low", "high")),
        f"{cost} [{job.units['cost']}]": write_plain(row["cost"]),
        "Energy": "" if job.watts is None else f"{write_plain(row['energy'])} Wh",
        "Speed-up": write_number(row["speedup"], "×"),
        "Efficiency": write_number(row["efficiency"], "share"),
        "Chance": write_chance(row["chance"]) if limited else "",
    }


def value_rows(rows: Sequence[Mapping[str, Any]], name: str) -> Iterator[Row]:
    """Yield the answers to a file of questions, each a value with its interval or an error.

    Args:
        rows: of `predict_points` or `forecast_cases`.
        name: the column that says what a row is about.
    """
    for row in rows:
        about = {name.title(): row.get(name) or "", "Devices": f"{row['n_devices'] or ''}"}
        if "error" in row:
            yield about | {"Value": row["error"], "90 % interval": "", "Kind": ""}
        else:
            value, low, high = (write_plain(row[end]) for end in ("value", "low", "high"))
            yield about | {
                "Value": f"{value} {row.get('unit', 'examples/s')}".rstrip(),
                "90 % interval": f"{low} – {high}",
                "Kind": "extrapolated" if row.get("extrapolated") else "",
            }


def published_rows(rows: pd.DataFrame) -> Iterator[Row]:
    """Yield some of the published curves to compare with, from the lowest to the highest."""
    some = np.unique(np.linspace(0, len(rows) - 1, min(_LISTED, len(rows))).round().astype(int))
    for row in rows.iloc[some].to_dict("records"):
        yield {
            "Published": row["publisher"],
            "Model": row["model"],
            "Device": row["device"],
            "Devices": f"{row['devices']:,}",
            "Efficiency": write_number(row["efficiency"], "share"),
        }


def _listed(numbers: Sequence[float]) -> str:
    if len(numbers) <= _LISTED:
        return ", ".join(f"{number:,.6g}" for number in numbers)
    return f"{numbers[0]:,.6g} … {numbers[-1]:,.6g} ({len(numbers)})"

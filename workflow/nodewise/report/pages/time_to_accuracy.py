"""Make the page Time to accuracy: how many more examples a larger global batch needs."""

from collections.abc import Iterator
from math import isfinite
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from nodewise.core.units import write_percent, write_plain
from nodewise.predict.answers import Job
from nodewise.predict.forecast import Given, forecast, forecast_rows
from nodewise.predict.forecast_cases import case_of, read_cases
from nodewise.predict.published_convergence import (
    published_laws,
    rate_exponent,
    reference_runs,
)
from nodewise.predict.steps_to_accuracy import BY_EPOCHS, BY_NOISE, SOURCE
from nodewise.report.context import ReportContext
from nodewise.report.html import badge, data, number
from nodewise.report.page import Page
from nodewise.report.pages import page
from nodewise.report.tables import MODEL, Column, table
from nodewise.results import published, studies

PAGE = "time-to-accuracy.html"
_ALIKE = 2.0  # largest ratio of critical batches that agree: the noise scale is a rough estimate
_SHOWN = ["resnet", "bert"]  # benchmarks of the first sentence
_CASE, _BENCHMARK, _PRICE = "dlperf-150", "resnet", 3.0  # the example; $ an hour and device
_DEVICES = [8, 32, 128, 512]
_STEPS = [
    MODEL,
    Column("basis", "Estimated from"),
    Column("critical", "Critical batch size"),
    Column("batches", "Global batches"),
    Column("more", "Examples at the largest batch, against the smallest", "×", "fitted"),
    Column("exponent", "Learning rate grows as the batch to the power of"),
    Column("missing", "Missing data", wide=True),
]
_JUDGED = [
    Column("judged", "Predicted", wide=True),
    Column("points", "Points"),
    Column("median", "Half are within", "share", "error"),
    Column("p90", "Nine in ten are within", "share", "error"),
    Column("constant_median", "With constant examples: half", "share", "error"),
    Column("constant_p90", "Nine in ten", "share", "error"),
    Column("covered", "Inside the stated range", "share", "error"),
]
_EXAMPLE = [
    Column("devices", "Devices"),
    Column("global_batch", "Global batch"),
    Column("samples", "Examples", "", "predicted", low="samples_low", high="samples_high"),
    Column("hours", "Hours", "mean", "predicted", low="hours_low", high="hours_high"),
    Column("cost", "Cost ($)", "", "predicted", low="cost_low", high="cost_high"),
]


@page("time_to_accuracy")
def pages(study: ReportContext) -> Iterator[Page]:
    """Yield the page."""
    own = study.with_titles(study.overhead["steps_to_accuracy"])
    unknown = {"batches": "–", "more": None, "exponent": "–"}
    known = [*_published()]
    rows: list[dict[Any, Any]] = [*known]
    rows += [unknown | row for row in own.to_dict("records")]
    judged = published.read("convergence/judged").sort_values("median", ascending=False)
    figures = study.pick("samples")
    context = {
        "percent": write_percent,
        "rounded": lambda value: write_plain(float(f"{value:.2g}")),
        "shown": [row for name in _SHOWN for row in known if row["benchmark"] == name],
        "ends": [known[0], known[-1]],
        "figures": figures,
        "steps": table([row | {"critical": _critical(row)} for row in rows], _STEPS),
        "apart": _apart(own),
        "source": SOURCE,
        "judged": table(judged, _JUDGED),
        "larger": dict(judged[judged["judged"] == "larger submissions"].iloc[0]),
        "example": _example(),
    }
    yield Page(PAGE, "time_to_accuracy.md.j2", "Time to accuracy", context, bool(figures))


def _example() -> dict[str, Any]:
    """Return time and cost to the target of a published cluster on more and more devices."""
    rows = [
        row for row in read_cases(studies.FOLDER / "forecast/cases.csv") if row["case"] == _CASE
    ]
    cluster, training, given = case_of(rows[0]).setup()
    points = {int(row["n_devices"]): float(row["throughput_samples_per_s"]) for row in rows}
    job = Job(price=_PRICE, currency="$", steps=published_laws()[_BENCHMARK], node="device")
    answers = forecast(cluster, training, Given(points, given.batch), _DEVICES, job)
    found = pd.DataFrame(forecast_rows(answers, cluster.devices_per_node))
    found = found[found["devices"].isin(_DEVICES)]
    hours = {f"hours{end}": found[f"time{end}"] / 3600 for end in ("", "_low", "_high")}
    found = found.assign(**hours, global_batch=found["devices"] * found["batch_per_device"])
    return {
        "table": table(found, _EXAMPLE),
        "ends": found.iloc[[0, -1]].to_dict("records"),
        "price": _PRICE,
        "cluster": cluster,
        "most": max(points),
        "batch": given.batch,
        **{name: rows[0][name] for name in ("device", "source")},
    }


def _published() -> Iterator[dict[str, Any]]:
    """Yield the critical batches of published models, the smallest first."""
    runs = reference_runs()
    for name, law in sorted(published_laws().items(), key=lambda one: one[1].critical_batch):
        mine = runs[runs["benchmark"] == name]
        ends = np.array([mine["global_batch"].min(), mine["global_batch"].max()])
        few, many = law.examples(ends)[0]
        low, high = law.critical_batch_interval
        yield {
            "benchmark": name,
            "model": f"{mine['model'].iloc[0]} ({name})",
            "title": mine["model"].iloc[0],
            "basis": f"{len(mine)} reference runs",
            "kind": "fitted",
            "critical_batch": law.critical_batch,
            "critical_batch_low": low,
            "critical_batch_high": high,
            "batches": f"{ends[0]:,} to {ends[1]:,}",
            "ends": ends,
            "more": many / few,
            "exponent": _exponent(name),
            "missing": "",
        }


def _exponent(name: str) -> Markup:
    known = rate_exponent(name)
    if known is None:
        return Markup("–")
    value, error, count = known
    template = Markup('{} ± {} {}<span class="nw-range">{} batches</span>')
    return template.format(data(value, "mean"), data(error, "mean"), badge("fitted"), count)


def _critical(row: dict[Any, Any]) -> Markup:
    if row["missing"]:
        return Markup("–")
    ends = [row[f"critical_batch{end}"] for end in ("", "_low", "_high")]
    value, low, high = (data(end, "") if isfinite(end) else Markup("any number") for end in ends)
    template = Markup('{} {}<span class="nw-range">{} to {}</span>')
    return template.format(value, badge(row["kind"]), low, high)


def _apart(steps: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the models for which the two estimates of the critical batch disagree.

    One estimate is from runs, the other from the noise scale. They disagree if they are more than
    `_ALIKE` times apart.
    """
    known = steps[np.isfinite(steps["critical_batch"])]
    batches = known.pivot_table(
        "critical_batch", ["model", "dataset", "data_origin"], "basis", sort=False
    )
    if not {BY_NOISE, BY_EPOCHS} <= set(batches):
        return []
    ratios = batches[BY_EPOCHS] / batches[BY_NOISE]
    apart = ratios[np.abs(np.log(ratios)) > np.log(_ALIKE)]
    return [{"model": of[0], "ratio": number(ratio, "×", "fitted")} for of, ratio in apart.items()]

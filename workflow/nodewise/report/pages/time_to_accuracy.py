"""Make the page Time to accuracy: how many more examples a larger global batch needs."""

from collections.abc import Iterator
from math import isfinite
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

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
from nodewise.results import published

PAGE = "time-to-accuracy.html"
_ALIKE = 2.0  # largest ratio of critical batches that agree: the noise scale is a rough estimate
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
    Column("judged", "What was left out", wide=True),
    Column("points", "Points"),
    Column("median", "Median error", "share", "predicted"),
    Column("p90", "90th percentile", "share", "predicted"),
    Column("constant_median", "Median error of constant examples", "share", "predicted"),
    Column("constant_p90", "90th percentile", "share", "predicted"),
    Column("covered", "Inside the 90 % interval", "share", "predicted"),
]


@page("time_to_accuracy")
def pages(study: ReportContext) -> Iterator[Page]:
    """Yield the page."""
    own = study.with_titles(study.overhead["steps_to_accuracy"])
    unknown = {"batches": "–", "more": None, "exponent": "–"}
    rows: list[dict[Any, Any]] = [*_published()]
    rows += [unknown | row for row in own.to_dict("records")]
    judged = published.read("convergence/judged").to_dict("records")
    larger = next(row for row in judged if row["judged"] == "larger submissions")
    critical = [law.critical_batch for law in published_laws().values()]
    context = {
        "ends": [number(end, "", "fitted") for end in (min(critical), max(critical))],
        "steps": table([row | {"critical": _critical(row)} for row in rows], _STEPS),
        "apart": _apart(own),
        "source": SOURCE,
        "judged": table(judged, _JUDGED),
        "larger": larger["points"],
        "off": {
            name: number(larger[name], "share", "predicted")
            for name in ("median", "p90", "constant_median", "constant_p90")
        },
    }
    yield Page(PAGE, "time_to_accuracy.md.j2", "Time to accuracy", context)


def _published() -> Iterator[dict[str, Any]]:
    """Yield the critical batches of published models, the smallest first."""
    runs = reference_runs()
    for name, law in sorted(published_laws().items(), key=lambda one: one[1].critical_batch):
        mine = runs[runs["benchmark"] == name]
        ends = np.array([mine["global_batch"].min(), mine["global_batch"].max()])
        few, many = law.examples(ends)[0]
        low, high = law.critical_batch_interval
        yield {
            "model": f"{mine['model'].iloc[0]} ({name})",
            "basis": f"{len(mine)} reference runs",
            "kind": "fitted",
            "critical_batch": law.critical_batch,
            "critical_batch_low": low,
            "critical_batch_high": high,
            "batches": f"{ends[0]:,} to {ends[1]:,}",
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

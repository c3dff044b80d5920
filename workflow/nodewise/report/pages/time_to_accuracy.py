"""Make the page Time to accuracy: how many more examples a larger global batch needs."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pandas as pd

from nodewise.core.units import write_percent, write_plain
from nodewise.predict.answers import TrainingJob
from nodewise.predict.forecast import forecast, forecast_rows
from nodewise.predict.question_files import Case
from nodewise.predict.steps_to_accuracy import SOURCE, published_laws, rate_exponent, reference_runs
from nodewise.report.context import ReportContext
from nodewise.report.page import Page
from nodewise.report.pages import page
from nodewise.report.tables import COVERED, ERROR_HALF, ERROR_MOST, MODEL, Column, table
from nodewise.results import published

PAGE = "time-to-accuracy.html"
SHOWN = {"resnet": "ResNet-50", "bert": "BERT-large"}
"""Benchmarks that first sentences tell of, and their short names."""
_CASE, _BENCHMARK, _PRICE = "dlperf-150", "resnet", 3.0  # the example; USD an hour and device
_DEVICES = [8, 32, 128, 512]
_BATCHES = ["critical_batch", "critical_batch_low", "critical_batch_high"]
_STEPS = [
    MODEL,
    Column("basis", "Estimated from"),
    Column(
        "critical_batch",
        "Critical batch size",
        "",
        kind_from="kind",
        low="critical_batch_low",
        high="critical_batch_high",
    ),
    Column("kind", "Kind"),
    Column("batches", "Global batches"),
    Column("more", "Examples: largest against smallest batch", "×", "fitted"),
    Column("exponent", "Exponent of the learning rate"),
    Column("missing", "Missing data", wide=True),
]
_JUDGED = [
    Column("judged", "Predicted", wide=True),
    Column("points", "Points"),
    ERROR_HALF,
    ERROR_MOST,
    Column("constant_median", "With constant examples: half", "share", "error"),
    Column("constant_p90", "Nine in ten", "share", "error"),
    COVERED,
]
_EXAMPLE = [
    Column("devices", "Devices"),
    Column("global_batch", "Global batch"),
    Column("mega", "Million examples", "mean", "predicted", low="mega_low", high="mega_high"),
    Column("hours", "Hours", "mean", "predicted", low="hours_low", high="hours_high"),
    Column("cost", "Cost (USD)", "", "predicted", low="cost_low", high="cost_high"),
]


@page("time_to_accuracy")
def pages(study: ReportContext) -> Iterator[Page]:
    """Yield the page."""
    own = study.with_titles(study.fit_tables["steps_to_accuracy"])
    unknown = {"batches": "–", "more": None, "exponent": "–"}
    known = [*published_batches()]
    rows = [*known, *(unknown | row for row in own.to_dict("records"))]
    for row in rows:
        row.update({name: float(f"{row[name]:.2g}") for name in _BATCHES})
    judged = published.read("convergence/judged").sort_values("median", ascending=False)
    figures = study.pick("samples")
    context = {
        "percent": write_percent,
        "rounded": write_plain,
        "shown": [row for row in known if row["benchmark"] in SHOWN],
        "ends": [known[0], known[-1]],
        "figures": figures,
        "steps": table(rows, _STEPS),
        "source": SOURCE,
        "judged": table(judged, _JUDGED),
        "larger": dict(judged[judged["judged"] == "larger submissions"].iloc[0]),
        "example": _example(),
    }
    yield Page(PAGE, "time_to_accuracy.md.j2", "Time to accuracy", context, bool(figures))


def _example() -> dict[str, Any]:
    """Return time and cost to the target of a published cluster on more and more devices."""
    rows = published.published_cases().query("case == @_CASE")
    cluster, training = Case.model_validate(dict(rows.iloc[0])).setup()
    points = dict(zip(rows["n_devices"].tolist(), rows[published.RATE].tolist(), strict=True))
    law = published_laws()[_BENCHMARK]
    job = TrainingJob(price=_PRICE, currency="USD", steps=law, node="device")
    answers = forecast(cluster, replace(training, measured=points), _DEVICES, job)
    found = pd.DataFrame(forecast_rows(answers, cluster.devices_per_node))
    found = found[found["devices"].isin(_DEVICES)]
    for end in ("", "_low", "_high"):
        found[f"hours{end}"] = found[f"time{end}"] / 3600
        found[f"mega{end}"] = found[f"samples{end}"] / 1e6
    found = found.assign(global_batch=found["devices"] * found["batch_per_device"])
    return {
        "table": table(found, _EXAMPLE),
        "ends": found.iloc[[0, -1]].to_dict("records"),
        "price": _PRICE,
        "cluster": cluster,
        "one": points[1],
        "most": max(points),
        "batch": training.batch,
        **{name: rows[name].iloc[0] for name in ("device", "source")},
    }


def published_batches() -> Iterator[dict[Any, Any]]:
    """Yield the critical batches of published models, the smallest first."""
    runs = reference_runs()
    for name, law in sorted(published_laws().items(), key=lambda one: one[1].critical_batch):
        mine = runs[runs["benchmark"] == name]
        ends = [int(mine["global_batch"].min()), int(mine["global_batch"].max())]
        few, many = law.examples(ends)[0]
        low, high = law.critical_batch_interval
        yield {
            "benchmark": name,
            "model": f"{mine['model'].iloc[0]} ({name})",
            "title": SHOWN.get(str(name)) or mine["model"].iloc[0],
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


def _exponent(benchmark: str) -> str:
    known = rate_exponent(benchmark)
    written = "{:.2f} ± {:.2f} ({} batches)".format(*known) if known else "–"
    return written.replace("-", "−")

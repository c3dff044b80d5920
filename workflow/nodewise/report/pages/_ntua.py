"""Make the page of the NTUA study: its tables and figures beside our own measurements."""

import re
from collections.abc import Iterator
from typing import Any

import pandas as pd

from nodewise.core.units import write_number
from nodewise.predict.fit_queries import mean_savings
from nodewise.report import evidence
from nodewise.report.claims_table import claims_table
from nodewise.report.context import ReportContext
from nodewise.report.html import data, interval, number
from nodewise.report.page import Page
from nodewise.report.tables import BATCH, FLAGS, MODEL, NODES, Column, table
from nodewise.results import published
from nodewise.results.queries import published_and_ours

TITLE = "Multi-node Training with TensorFlow"
# model -> the study's numbers of its figures of times and of accuracies
_TRAININGS = {
    "cifar10_cnn": (16, 17),
    "densenet121": (18, 19),
    "fashion_cnn": (20, 21),
    "resnet50": (22, 23),
    "bert_base": (24, 25),
}
_TABLE_1 = [
    MODEL,
    Column("dataset", "Dataset"),
    Column("input_shape", "Input"),
    Column("training_examples", "Training examples", "", "published"),
    Column("epochs", "Epochs", "", "published"),
    Column("batches", "Batches per worker"),
    Column("trainable_weights", "Trainable parameters", "", "published"),
    Column("trainable", "Ours", "", "counted"),
    Column("total_weights", "All parameters", "", "published"),
    Column("total", "Ours", "", "counted"),
]
_TABLE_2 = [
    MODEL,
    BATCH,
    NODES,
    Column("seconds_published", "Time", "s", "published"),
    Column("seconds_ours", "Our time", "s", kind_from="label"),
    Column("ratio", "Ours ÷ published", "×", kind_from="label"),
    Column("label", "Kind of our time"),
    Column("accuracy_published", "Accuracy", "accuracy", "published"),
    Column("accuracy_ours", "Our accuracy", "accuracy", kind_from="accuracy_label"),
    Column("accuracy_label", "Kind of our accuracy"),
    Column("experiment", "Our experiment"),
    Column("machine", "Our machine"),
    FLAGS,
]
_SAVED = [
    NODES,
    Column("observed", "Saved", "share", "published"),
    Column("foreseen", "Foreseen", "share", "published"),
    Column("saved", "By our formulas", "share", kind_from="kind", low="low", high="high"),
    Column("kind", "Kind"),
]
_SAVED_BY_MODEL = [
    MODEL,
    BATCH,
    Column("saved", "Saved, by our formulas", "share", kind_from="kind", low="low", high="high"),
    Column("kind", "Kind"),
]
_SATURATED = 0.05  # training is saturated if one more node shortens it by less than this share


def page(study: ReportContext) -> Iterator[tuple[Page, dict[str, int | None]]]:
    """Yield the page with its number of published points and how many of them we timed.

    Nothing is yielded if there are no published points.
    """
    points = published_and_ours(study.tables)
    points = points[points["study"] == "ntua"]
    if len(points):
        context = _context(study, points)
        yield (
            Page("studies/ntua.html", "studies/ntua.md.j2", TITLE, context, figures=True),
            {
                "points": len(points),
                "measured": int(points["ratio"].notna().sum()),
            },
        )


def _context(study: ReportContext, points: pd.DataFrame) -> dict[str, Any]:
    printed, read = points["printed_dataset"].map(_letters), points["dataset"].map(_letters)
    return {
        "models": table(_table_1(study), _TABLE_1),
        "trainings": _trainings(study),
        "improvement": study.pick("savings", study="ntua"),
        "claims": claims_table(study, TITLE),
        **_ratios(study, points.dropna(subset="ratio")),
        "figure_28": _figure_28(study),
        "relabelled": int((printed != read).sum()),
        "table": table(
            study.with_titles(points.assign(machine=study.processors(points))), _TABLE_2
        ),
    }


def _table_1(study: ReportContext) -> pd.DataFrame:
    """Return Table I as printed, with the parameters of our own models if they are described."""
    rows = published.read("ntua_table1")
    described = study.architectures
    counts = {
        count: rows["model"].map({name: getattr(one, count) for name, one in described.items()})
        for count in ("trainable", "total")
    }
    return study.with_titles(rows).assign(
        dataset=rows["dataset"].map(study.dataset_title),
        batches=rows["initial_batch_sizes"].str.replace(";", ", "),
        **counts,
    )


def _trainings(study: ReportContext) -> list[dict[str, Any]]:
    """Return the figures of times and accuracies of each model, with the study's own numbers."""
    return [
        {"title": study.model_title(model), "numbers": numbers, "figures": figures}
        for model, numbers in _TRAININGS.items()
        if (figures := study.pick("time", "accuracy", study="ntua", model=model))
    ]


def _figure_28(study: ReportContext) -> dict[str, Any] | None:
    """Compare the time that more nodes save by our formulas with what the study foresaw.

    None is returned if there are no savings of this study.
    """
    savings = study.overhead["savings"]
    savings = savings[savings["study"] == "ntua"]
    mean = {row["nodes"]: row for row in mean_savings(savings).to_dict("records")}
    if not mean:
        return None
    claims = {row["claim"]: row for row in published.read("ntua_figure28").to_dict("records")}
    best, last = claims["compromise"], claims["saturation"]
    there = mean[best["nodes"]]
    left = {nodes: 1 - row["saved"] for nodes, row in mean.items()}
    shorter = 1 - left[last["nodes"]] / left[last["nodes"] - 1]
    foreseen = {row["nodes"]: row["time_saved"] for row in claims.values()}
    rows = [row | {"foreseen": foreseen.get(nodes)} for nodes, row in mean.items()]
    models = savings[(savings["model"] != "") & (savings["nodes"] == best["nodes"])]
    reach = max(n for n, row in mean.items() if row["kind"] == "fitted")
    return {
        "figures": [],
        "table": table(rows, _SAVED),
        "models": table(study.with_titles(models), _SAVED_BY_MODEL),
        "fitted_to": reach,
        "best": best["nodes"],
        "claimed": number(best["time_saved"], "share", "published"),
        "predicted": number(there["saved"], "share", there["kind"]),
        "interval": interval(there["low"], there["high"], "share"),
        "holds": bool(there["low"] <= best["time_saved"] <= there["high"]),
        "last": last["nodes"],
        "shorter": number(shorter, "share", "predicted"),
        "ideal": write_number(1 / last["nodes"], "share"),
        "limit": write_number(_SATURATED, "share"),
        "saturated": bool(shorter < _SATURATED),
    }


def _ratios(study: ReportContext, measured: pd.DataFrame) -> dict[str, Any]:
    """Return the median ratio of our times to the published ones, for each kind of our times.

    Only times that count as evidence are used. If none counts, `needs` says what has to be
    measured.
    """
    repeats = study.tables["curves"].set_index("cell_id")["repeats"]
    measured = measured.assign(repeats=measured["cell_id"].map(repeats))
    measured = evidence.check_times(measured, study.tables)
    counting = evidence.select(measured)
    ratios = [
        {"points": len(rows), "number": data(rows["ratio"].median(), "mean"), "label": str(label)}
        for label, rows in counting.groupby("label")
    ]
    return {"ratios": ratios, "needs": evidence.needs(measured) if counting.empty else ""}


def _letters(name: str) -> str:
    """Return the lower-case letters and digits of a dataset's name, to compare spellings."""
    return re.sub(r"[^a-z0-9]", "", name.lower())

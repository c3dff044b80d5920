"""Studies: one page per published study that is being reproduced."""

import re
from collections.abc import Iterator
from typing import Any

import pandas as pd
from markupsafe import Markup

from nodewise.core.units import counted, write_number
from nodewise.predict.fit_queries import mean_savings
from nodewise.predict.published_bandwidth import OTHER_MODELS
from nodewise.predict.queries import published_and_ours, published_runs_and_ours, with_labels
from nodewise.report import evidence
from nodewise.report.claims_table import claims_table
from nodewise.report.context import ReportContext
from nodewise.report.html import Column, data, interval, number, slug, table
from nodewise.report.page import Page, PageFigure
from nodewise.report.pages import page, survey
from nodewise.results.columns import SINGLE
from nodewise.results.importers import published

NTUA = "Multi-node Training with TensorFlow"

# of the figures of times and of accuracies: model -> their numbers in the study
_TRAININGS = {
    "cifar10_cnn": (16, 17),
    "densenet121": (18, 19),
    "fashion_cnn": (20, 21),
    "resnet50": (22, 23),
    "bert_base": (24, 25),
}
_TABLE_1 = [
    Column("model", "Model"),
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
    Column("model", "Model"),
    Column("batch_per_worker", "Batch per worker"),
    Column("nodes", "Nodes"),
    Column("seconds_published", "Time", "s", "published"),
    Column("seconds_ours", "Our time", "s", kind_from="label"),
    Column("ratio", "Ours ÷ published", "×", kind_from="label"),
    Column("label", "Kind of our time"),
    Column("accuracy_published", "Accuracy", "accuracy", "published"),
    Column("accuracy_ours", "Our accuracy", "accuracy", kind_from="accuracy_label"),
    Column("accuracy_label", "Kind of our accuracy"),
    Column("experiment", "Our experiment"),
    Column("machine", "Our machine"),
    Column("flags", "Caution"),
]
_SAVED = [
    Column("nodes", "Nodes"),
    Column("observed", "Saved", "share", "published"),
    Column("foreseen", "Foreseen", "share", "published"),
    Column("saved", "By our formulas", "share", kind_from="kind", low="low", high="high"),
    Column("kind", "Kind"),
]
_SAVED_BY_MODEL = [
    Column("model", "Model"),
    Column("batch_per_worker", "Batch per worker"),
    Column("saved", "Saved, by our formulas", "share", kind_from="kind", low="low", high="high"),
    Column("kind", "Kind"),
]
_FROM_ONE = [
    Column("model", "Model"),
    Column("batch_per_worker", "Batch per worker"),
    Column("nodes", "Nodes"),
    Column("observed_s", "Step", "s", "published"),
    Column("predicted_s", "Step from one node", "s", "predicted"),
    Column("error", "Error", "share", "predicted"),
]
_SATURATED = 0.05  # a further node that shortens training by less hardly pays

# the studies whose trainings are in `published_runs`: name -> title
RUNS = {
    "asu": "Distributed Deep Learning Training Techniques",
    "strategies": "Comparative Study on Distributed Training Strategies",
    "horovod": "Distributed Model Training with Horovod",
}
_WAY = [
    Column("strategy", "Strategy"),
    Column("experiment", "Our experiment"),
    Column("nodes", "Nodes"),
    Column("batch_per_worker", "Our batch per worker"),
]
_SPEED = [
    *_WAY,
    Column("printed_name", "In the study"),
    Column("batch_per_worker_published", "Its batch per worker"),
    Column("examples_per_s_published", "Examples/s", "/s", "published"),
    Column("speedup_published", "Speed-up", "×", "published"),
    Column("efficiency_published", "Efficiency", "share", "published"),
    Column("examples_per_s", "Our examples/s", "/s", kind_from="speed_label"),
    Column("speedup", "Our speed-up", "×", kind_from="speed_label"),
    Column("against", "Against one node by"),
    Column("efficiency", "Our efficiency", "share", kind_from="speed_label"),
    Column("speed_label", "Kind of ours"),
    Column("machine", "Our machine"),
    Column("flags", "Caution", wide=True),
]
_TIME = [
    *_WAY,
    Column("epochs", "Epochs"),
    Column("step_time_s_published", "Step", "s", "published"),
    Column("step_time_s", "Our step", "s", kind_from="speed_label"),
    Column("speed_label", "Kind of our step"),
    Column("training_time_s", "Time", "s", "published"),
    Column("seconds_ours", "Our time", "s", kind_from="label"),
    Column("label", "Kind of ours"),
]
_ACCURACY = [
    *_WAY,
    Column("training_accuracy", "Training", "accuracy", "published"),
    Column("test_accuracy_published", "Test", "accuracy", "published"),
    Column("trained", "Our epochs"),
    Column("train_accuracy", "Our training", "accuracy", kind_from="accuracy_label"),
    Column("test_accuracy", "Our test", "accuracy", kind_from="accuracy_label"),
    Column("accuracy_label", "Kind of ours"),
]
_ENERGY = [
    Column("experiment", "Experiment"),
    Column("strategy", "Strategy"),
    Column("nodes", "Nodes"),
    Column("batch_per_worker", "Batch per worker"),
    Column("energy_j", "Energy of the timed steps", "J", kind_from="energy_kind"),
    Column("per_thousand_j", "Per 1,000 examples", "J", kind_from="energy_kind"),
    Column("energy_kind", "Kind"),
]


@page("studies")
def pages(study: ReportContext) -> Iterator[Page]:
    """Yield a page per published study, and the page that lists them."""
    listed = []
    points = published_and_ours(study.tables)
    points = points[points["study"] == "ntua"]
    if len(points):
        path = "studies/ntua.html"
        measured = int(points["ratio"].notna().sum())
        listed.append({"page": path, "title": NTUA, "points": len(points), "measured": measured})
        yield Page(path, "studies/ntua.md.j2", NTUA, _ntua(study, points), figures=True)
    for name, title in RUNS.items():
        rows = published_runs_and_ours(study.tables, name)
        if rows.empty:
            continue
        path = f"studies/{name}.html"
        printed = rows.dropna(subset="training_time_s").drop_duplicates(["strategy", "nodes"])
        measured = int((printed["seconds_ours"].notna()).sum())
        listed.append({"page": path, "title": title, "points": len(printed), "measured": measured})
        yield Page(path, "studies/runs.md.j2", title, _runs(study, name, rows), figures=True)
    told = survey.context(study)
    if told is not None:
        path = "studies/survey.html"
        listed.append({"page": path, "title": survey.TITLE, "points": None})
        told["figures"] = _of_study(study, survey.NAME, "ways")
        yield Page(path, "studies/survey.md.j2", survey.TITLE, told, bool(told["figures"]))
    context = {"studies": listed, "claims": claims_table(study)}
    yield Page("studies/index.html", "studies/index.md.j2", "Studies", context, contents=False)


def _ntua(study: ReportContext, points: pd.DataFrame) -> dict[str, Any]:
    printed, read = points["printed_dataset"].map(_letters), points["dataset"].map(_letters)
    titles = {model: study.model_title(model) for model in points["model"]}
    return {
        "models": table(_table_1(study), _TABLE_1),
        "trainings": _trainings(study),
        "improvement": study.pick("improvement", study="ntua"),
        "claims": claims_table(study, NTUA),
        **_ratios(study, points.dropna(subset="ratio")),
        "figure_28": _figure_28(study),
        "from_one": _from_one(study),
        "relabelled": int((printed != read).sum()),
        "table": table(
            points.assign(
                model=points["model"].map(titles),
                machine=_machines(study, points),
                experiment=study.experiments_in_words(points["experiment"]),
            ),
            _TABLE_2,
        ),
    }


def _table_1(study: ReportContext) -> pd.DataFrame:
    """Return Table I as printed, with the parameters of our models where they were described."""
    rows = published.read("ntua_table1")
    described = study.architectures
    counts = {
        count: rows["model"].map({name: getattr(one, count) for name, one in described.items()})
        for count in ("trainable", "total")
    }
    return rows.assign(
        model=rows["model"].map(study.model_title),
        dataset=rows["dataset"].map(study.dataset_title),
        batches=rows["initial_batch_sizes"].str.replace(";", ", "),
        **counts,
    )


def _trainings(study: ReportContext) -> list[dict[str, Any]]:
    """Return for each model the figures of its times and accuracies, under the study's numbers."""
    return [
        {"title": study.model_title(model), "numbers": numbers, "figures": figures}
        for model, numbers in _TRAININGS.items()
        if (figures := study.pick("time", "accuracy", study="ntua", model=model))
    ]


def _figure_28(study: ReportContext) -> dict[str, Any] | None:
    """Return what more nodes save by the formulas beside what the study foresaw, and what holds."""
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
        "figures": study.pick("saved", study="ntua"),
        "table": table(rows, _SAVED),
        "models": table(
            models.assign(model=models["model"].map(study.model_title)), _SAVED_BY_MODEL
        ),
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


def _from_one(study: ReportContext) -> dict[str, Any] | None:
    """Return how well step times of one node, and one bandwidth, tell those of several."""
    trials = study.overhead["trials"]
    rows = trials[(trials["study"] == "ntua") & (trials["scenario"] == OTHER_MODELS)]
    if rows.empty:
        return None
    medians = rows.groupby("nodes")["error"].median()
    return {
        "medians": [
            {"nodes": nodes, "error": number(error, "share", "predicted")}
            for nodes, error in medians.items()
        ],
        "table": table(rows.assign(model=rows["model"].map(study.model_title)), _FROM_ONE),
    }


def _against(study: ReportContext, rows: pd.DataFrame) -> "pd.Series[str]":
    """Return the way whose one node our speed-ups are against: `single`, where there is one."""
    curves = study.tables["curves"]
    alone = curves[(curves["strategy"] == SINGLE) & (curves["nodes"] == 1)]
    by_single = rows["experiment"].isin(alone["experiment"])
    return rows["strategy"].mask(by_single, SINGLE).where(rows["speedup"].notna(), "")


def _runs(study: ReportContext, name: str, rows: pd.DataFrame) -> dict[str, Any]:
    rows = rows.assign(
        efficiency_published=rows["speedup_published"] / rows["nodes"],
    )
    whole = rows["whole_epochs"].eq(True)  # some steps make no accuracy
    rows = rows.assign(
        **{
            name: rows[name].where(whole) for name in ("trained", "train_accuracy", "test_accuracy")
        },
        accuracy_label=rows["accuracy_label"].where(whole),
        machine=_machines(study, rows),
        against=_against(study, rows).map(study.strategy_title),
        experiment=study.experiments_in_words(rows["experiment"]),
        strategy=rows["strategy"].map(study.strategy_title),
    )
    known = rows[["training_accuracy", "test_accuracy_published", "train_accuracy"]].notna()
    scored = known.any(axis=1)
    cells = study.cells[(study.cells["study"] == name) & study.cells["energy_j"].notna()]
    energy = cells.assign(
        experiment=study.experiments_in_words(cells["experiment"]),
        strategy=cells["strategy"].map(study.strategy_title),
        per_thousand_j=1000 * cells["energy_j"] / (cells["steps"] * cells["global_batch"]),
    )
    trained = rows["model"].iloc[0]
    page = f"models/{slug(trained)}.html" if trained in study.architectures else None
    return {
        "name": name,
        "claims": claims_table(study, RUNS[name]),
        "model": {"title": study.model_title(trained), "page": page},
        "measured": bool(rows["seconds_ours"].notna().any()),
        "efficiency": _efficiency(rows),
        "speed": table(rows, _SPEED),
        "time": table(rows, _TIME),
        "accuracy": table(rows[scored], _ACCURACY) if scored.any() else None,
        "trained": bool(rows["train_accuracy"].notna().any()),
        "scaling": _of_study(study, name, "ways", "ways-parts", "speedup", "efficiency"),
        "curves": _of_study(study, name, "loss-by-epoch", "accuracy-by-epoch"),
        "energy": table(energy, _ENERGY) if len(energy) else None,
        "watts": f"{study.config.watts_per_core:g}",
        "fed": _fed(study, name),
    }


def _fed(study: ReportContext, name: str) -> dict[str, Any] | None:
    """Return the throughput of nodes fed by others beside that of nodes that feed themselves."""
    curves = study.tables["curves"]
    rows = with_labels(curves[curves["study"] == name])
    at = ["study", "model", "dataset", "strategy", "cluster", "machine", "label"]
    at += ["batch_per_worker", "nodes"]
    service, own = (rows[rows["pipeline"] == how] for how in ("service", "sharded"))
    pairs = service.merge(own, "inner", at, suffixes=("", "_own"))
    if pairs.empty:
        return None
    pairs = evidence.of_times(pairs, study.tables, other="_own")
    told = evidence.counting(pairs)
    pair = pairs.iloc[0] if told.empty else told.iloc[0]
    extra = study.records[pair["cell_id"]].cell.preprocessing_nodes
    return {
        "extra": counted(extra, "extra node"),
        "nodes": counted(pair["nodes"], "node"),
        "service": number(pair["examples_per_s"], "/s", pair["label"]),
        "own": number(pair["examples_per_s_own"], "/s", pair["label"]),
        "needs": evidence.needs(pairs) if told.empty else "",
    }


def _machines(study: ReportContext, rows: pd.DataFrame) -> list[str]:
    """Return the processor that each row was measured on; nothing of what was not measured."""
    return [
        study.records[cell].provenance.cpu if cell in study.records else ""
        for cell in rows["cell_id"]
    ]


def _efficiency(rows: pd.DataFrame) -> Markup:
    """Return the published efficiency on the most nodes."""
    printed = rows.dropna(subset="efficiency_published").sort_values("nodes")
    last = printed["efficiency_published"].iloc[-1] if len(printed) else None
    return number(last, "share", "published")


def _of_study(study: ReportContext, name: str, *figures: str) -> list[PageFigure]:
    experiments = {
        record.cell.experiment for record in study.records.values() if record.cell.study == name
    }
    return [one for one in study.pick(*figures) if one.of.get("experiment") in experiments]


def _ratios(study: ReportContext, measured: pd.DataFrame) -> dict[str, Any]:
    """Return the median ratio of each kind of our times that count, or what it takes to count."""
    repeats = study.tables["curves"].set_index("cell_id")["repeats"]
    measured = measured.assign(repeats=measured["cell_id"].map(repeats))
    measured = evidence.of_launches(measured, study.tables)
    told = evidence.counting(measured)
    ratios = [
        {"points": len(rows), "number": data(rows["ratio"].median(), "mean"), "label": str(label)}
        for label, rows in told.groupby("label")
    ]
    return {"ratios": ratios, "needs": evidence.needs(measured) if told.empty else ""}


def _letters(name: str) -> str:
    """Return a dataset's name without spaces and underscores, to compare spellings."""
    return re.sub(r"[^a-z0-9]", "", name.lower())

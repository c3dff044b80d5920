"""Make the pages of published studies that print single trainings, beside our measurements."""

from collections.abc import Iterator
from typing import Any

import pandas as pd
from markupsafe import Markup

from nodewise.core.units import counted
from nodewise.report import evidence
from nodewise.report.addresses import model_page
from nodewise.report.claims_table import claims_table
from nodewise.report.context import ReportContext
from nodewise.report.html import number
from nodewise.report.page import Page
from nodewise.report.tables import BATCH, FLAGS, LAUNCH, NODES, STRATEGY, Column, table
from nodewise.results.columns import SINGLE
from nodewise.results.queries import plain_training, published_runs_and_ours, with_labels

# name -> title
RUNS = {
    "asu": "Distributed Deep Learning Training Techniques",
    "strategies": "Comparative Study on Distributed Training Strategies",
    "horovod": "Distributed Model Training with Horovod",
}
_WAY = [
    STRATEGY,
    Column("experiment", "Our experiment"),
    NODES,
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
    Column("against", "Our speed-up is relative to"),
    Column("efficiency", "Our efficiency", "share", kind_from="speed_label"),
    Column("speed_label", "Kind of ours"),
    Column("machine", "Our machine"),
    FLAGS,
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
    STRATEGY,
    NODES,
    BATCH,
    LAUNCH,
    Column("energy_j", "Energy of the timed steps", "J", kind_from="energy_kind"),
    Column("per_thousand_j", "Per 1,000 examples", "J", kind_from="energy_kind"),
    Column("energy_kind", "Kind"),
]


def pages(study: ReportContext) -> Iterator[tuple[Page, dict[str, int | None]]]:
    """Yield a page per study with its number of published points and how many of them we timed."""
    for name, title in RUNS.items():
        rows = published_runs_and_ours(study.tables, name)
        if rows.empty:
            continue
        printed = rows.dropna(subset="training_time_s").drop_duplicates(["strategy", "nodes"])
        timed = int(printed["seconds_ours"].notna().sum())
        path, context = f"studies/{name}.html", _context(study, name, rows)
        page = Page(path, "studies/runs.md.j2", title, context, figures=True)
        yield page, {"points": len(printed), "measured": timed}


def _context(study: ReportContext, name: str, rows: pd.DataFrame) -> dict[str, Any]:
    whole = rows["whole_epochs"].eq(True)  # only whole epochs give an accuracy
    rows = rows.assign(
        **{
            score: rows[score].where(whole)
            for score in ("trained", "train_accuracy", "test_accuracy", "accuracy_label")
        },
        efficiency_published=rows["speedup_published"] / rows["nodes"],
        machine=study.processors(rows),
        against=_against(study, rows).map(study.strategy_title),
    )
    titled = study.with_titles(rows)
    known = rows[["training_accuracy", "test_accuracy_published", "train_accuracy"]].notna()
    scored = known.any(axis=1)
    cells = study.cells[(study.cells["study"] == name) & study.cells["energy_j"].notna()]
    energy = cells.assign(
        per_thousand_j=1000 * cells["energy_j"] / (cells["steps"] * cells["global_batch"]),
    )
    trained = rows["model"].iloc[0]
    page = model_page(trained) if trained in study.architectures else None
    return {
        "name": name,
        "claims": claims_table(study, RUNS[name]),
        "model": {"title": study.model_title(trained), "page": page},
        "measured": bool(rows["seconds_ours"].notna().any()),
        "efficiency": _efficiency(rows),
        "speed": table(titled, _SPEED),
        "time": table(titled, _TIME),
        "accuracy": table(titled[scored], _ACCURACY) if scored.any() else None,
        "trained": bool(rows["train_accuracy"].notna().any()),
        "scaling": study.pick_of_study(name, "strategies", "parts", "speedup"),
        "curves": study.pick_of_study(name, "epochs"),
        "energy": table(study.with_titles(energy), _ENERGY) if len(energy) else None,
        "watts": f"{study.config.watts_per_core:g}",
        "fed": _fed(study, name),
    }


def _against(study: ReportContext, rows: pd.DataFrame) -> "pd.Series[str]":
    """Return the strategy on one node that each of our speed-ups is relative to.

    It is `single` if the experiment measured it, else the row's own strategy; empty for rows
    without a speed-up.
    """
    alone = plain_training(study.tables["curves"])
    by_single = rows["experiment"].isin(alone["experiment"])
    return rows["strategy"].mask(by_single, SINGLE).where(rows["speedup"].notna(), "")


def _fed(study: ReportContext, name: str) -> dict[str, Any] | None:
    """Compare nodes that get examples from extra nodes with nodes that read their own shard.

    Returns:
        The throughputs of one such pair of points, if possible one that counts as evidence; None if
        there is no pair.
    """
    curves = study.tables["curves"]
    rows = with_labels(curves[curves["study"] == name])
    at = ["study", "model", "dataset", "strategy", "cluster", "machine", "label"]
    at += ["batch_per_worker", "nodes"]
    service, own = (rows[rows["pipeline"] == how] for how in ("service", "sharded"))
    pairs = service.merge(own, "inner", at, suffixes=("", "_own"))
    if pairs.empty:
        return None
    pairs = evidence.check_times(pairs, study.tables, other="_own")
    counting = evidence.select(pairs)
    pair = pairs.iloc[0] if counting.empty else counting.iloc[0]
    extra = study.records[pair["cell_id"]].cell.preprocessing_nodes
    return {
        "extra": counted(extra, "extra node"),
        "nodes": counted(pair["nodes"], "node"),
        "service": number(pair["examples_per_s"], "/s", pair["label"]),
        "own": number(pair["examples_per_s_own"], "/s", pair["label"]),
        "needs": evidence.needs(pairs) if counting.empty else "",
    }


def _efficiency(rows: pd.DataFrame) -> Markup:
    """Return the published efficiency on the most nodes."""
    printed = rows.dropna(subset="efficiency_published").sort_values("nodes")
    last = printed["efficiency_published"].iloc[-1] if len(printed) else None
    return number(last, "share", "published")

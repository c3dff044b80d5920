"""Results: one page per dataset, one section per model."""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from nodewise.pages.markup import STEP_TIME, Column, table
from nodewise.pages.study import Page, Study, slug
from nodewise.views import with_labels

_SECTIONS = {
    "Training time": ["time"],
    "Training accuracy": ["accuracy"],
    "Ways of training": ["ways", "ways-parts"],
    "Where the time goes": ["split"],
    "Links, stragglers and inputs": ["settings"],
    "Speed-up and efficiency": ["speedup", "efficiency"],
    "Loss and accuracy by epoch": ["loss-by-epoch", "accuracy-by-epoch"],
}
_CURVES = [
    Column("experiment", "Experiment"),
    Column("strategy", "Strategy"),
    Column("batch_per_worker", "Batch per worker"),
    Column("nodes", "Nodes"),
    Column("label", "Kind"),
    Column("repeats", "Launches"),
    Column("failed", "Failed"),
    STEP_TIME,
    Column("examples_per_s", "Examples/s", "/s", kind_from="label"),
    Column("speedup", "Speed-up", "×", kind_from="label"),
    Column("efficiency", "Efficiency", "share", kind_from="label"),
    Column("bytes_sent_per_step", "Sent per step", "B", kind_from="label"),
    Column("flags", "Caution"),
]


def pages(study: Study) -> Iterator[Page]:
    """Yield a page per dataset, and the page that lists them."""
    listed = []
    for dataset, cells in study.cells.groupby("dataset"):
        title = study.dataset_title(str(dataset))
        path = f"results/{slug(str(dataset))}.html"
        models = list(dict.fromkeys(cells["model"]))
        listed.append(
            {
                "page": path,
                "title": title,
                "models": ", ".join(study.model_title(model) for model in models),
                "cells": len(cells),
                "lost": int((cells["status"] != "ok").sum()),
            }
        )
        sections = [
            _model(study, model, str(dataset), cells[cells["model"] == model]) for model in models
        ]
        context = {"models": sections}
        yield Page(path, "results/dataset.md.j2", title, context, figures=True)
    context = {"datasets": listed}
    yield Page("results/index.html", "results/index.md.j2", "Results", context, contents=False)


def _model(study: Study, model: str, dataset: str, cells: pd.DataFrame) -> dict[str, Any]:
    anchor, done = slug(model), cells[cells["status"] == "ok"]
    own = {"model": model, "dataset": dataset}
    compared = {one.of["experiment"] for one in study.pick("ways", **own)}
    sections = []
    for title, figures in _SECTIONS.items():
        shown = [
            one
            for one in study.pick(*figures, **own)
            if one.kinds != ["published"]
            and not (one.figure == "split" and one.of["experiment"] in compared)
        ]
        shown.sort(key=lambda one: list(one.of.values()))  # pairs of one experiment stay together
        if shown:
            sections.append({"title": title, "anchor": slug(f"{model} {title}"), "figures": shown})
    curves = with_labels(study.tables["curves"])
    curves = curves[(curves["model"] == model) & (curves["dataset"] == dataset)]
    return {
        "title": study.model_title(model),
        "anchor": anchor,
        "page": f"models/{slug(model)}.html" if model in study.architectures else None,
        "size": done.iloc[0] if len(done) else None,
        "gaps": cells[cells["status"] != "ok"].to_dict("records"),
        "sections": sections,
        "curves": table(curves, _CURVES),
    }

"""Results: one page for each model on each dataset."""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from nodewise.predict.queries import with_labels
from nodewise.report import figures
from nodewise.report.context import ReportContext
from nodewise.report.html import STEP_TIME, Column, slug, table
from nodewise.report.page import Page
from nodewise.report.pages import page
from nodewise.report.pages.strategies import in_words

_CURVES = [
    Column("experiment", "Experiment", wide=True),
    Column("strategy", "Strategy"),
    Column("batch_per_worker", "Batch per worker"),
    Column("nodes", "Nodes"),
    Column("cluster", "Node"),
    Column("machine", "Machine"),
    Column("label", "Kind"),
    Column("repeats", "Launches"),
    Column("failed", "Failed"),
    STEP_TIME,
    Column("examples_per_s", "Examples/s", "/s", kind_from="label"),
    Column("speedup", "Speed-up", "×", kind_from="label"),
    Column("efficiency", "Efficiency", "share", kind_from="label"),
    Column("bytes_sent_per_step", "Sent per step", "B", kind_from="label"),
    Column("flags", "Caution", wide=True),
]


def path_of(model: str, dataset: str) -> str:
    """Return the address of the page of a model on a dataset."""
    return f"results/{slug(dataset)}/{slug(model)}.html"


@page("results")
def pages(study: ReportContext) -> Iterator[Page]:
    """Yield a page for each model on each dataset, and the page that lists them."""
    listed = []
    for key, cells in study.cells.groupby(["dataset", "model"]):
        dataset, model = map(str, key)
        path = path_of(model, dataset)
        title = f"{study.model_title(model)} on {study.dataset_title(dataset)}"
        listed.append(
            {
                "page": path,
                "title": title,
                "cells": len(cells),
                "lost": int((cells["status"] != "ok").sum()),
            }
        )
        context = _results(study, model, dataset, cells)
        yield Page(path, "results/model.md.j2", title, context, figures=True)
    context = {"results": listed}
    yield Page("results/index.html", "results/index.md.j2", "Results", context, contents=False)


def _results(study: ReportContext, model: str, dataset: str, cells: pd.DataFrame) -> dict[str, Any]:
    done = cells[cells["status"] == "ok"]
    own = {"model": model, "dataset": dataset}
    compared = {one.of["experiment"] for one in study.pick("ways", **own)}
    sections = []
    for title, names in figures.sections().items():
        shown = [
            one
            for one in study.pick(*names, **own)
            if one.kinds != ["published"]
            and not (one.figure == "split" and one.of["experiment"] in compared)
        ]
        shown.sort(key=lambda one: list(one.of.values()))  # pairs of one experiment stay together
        if shown:
            sections.append({"title": title, "anchor": slug(title), "figures": shown})
    curves = with_labels(study.tables["curves"])
    curves = curves[(curves["model"] == model) & (curves["dataset"] == dataset)]
    pages = cells.drop_duplicates("page")[["page", "strategy"]].to_numpy()
    return {
        "pages": [(path, study.strategy_title(strategy)) for path, strategy in pages],
        "model_page": f"models/{slug(model)}.html" if model in study.architectures else None,
        "size": done.iloc[0] if len(done) else None,
        "gaps": cells[cells["status"] != "ok"].to_dict("records"),
        "sections": sections,
        "curves": table(in_words(study, curves, path_of(model, dataset)), _CURVES),
    }

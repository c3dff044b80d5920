"""Make the pages of results: one for each model on each dataset."""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from nodewise.report import figures
from nodewise.report.addresses import model_page
from nodewise.report.context import ReportContext
from nodewise.report.html import slug
from nodewise.report.page import Page
from nodewise.report.page_figure import part_figures
from nodewise.report.pages import page
from nodewise.report.tables import (
    BATCH,
    BYTES_SENT,
    EFFICIENCY,
    EXAMPLES,
    EXPERIMENT,
    FLAGS,
    KIND,
    LAUNCHES,
    MACHINE,
    NODE,
    NODES,
    SPEEDUP,
    STEP_TIME,
    STRATEGY,
    Column,
    table,
)
from nodewise.results.queries import with_labels

_CURVES = [
    STRATEGY,
    EXPERIMENT,
    BATCH,
    NODES,
    NODE,
    MACHINE,
    KIND,
    LAUNCHES,
    Column("failed", "Failed"),
    STEP_TIME,
    EXAMPLES,
    SPEEDUP,
    EFFICIENCY,
    BYTES_SENT,
    FLAGS,
]


@page("results")
def pages(study: ReportContext) -> Iterator[Page]:
    """Yield a page for each model on each dataset, and the page that lists them."""
    listed = []
    for key, cells in study.cells.groupby(["dataset", "model"]):
        dataset, model = map(str, key)
        path = study.results_pages[model, dataset]
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
        shown.sort(key=lambda one: list(one.of.values()))  # keep those of one experiment together
        if shown:
            first, more = part_figures(shown)
            section = {"title": title, "anchor": slug(title), "figures": first}
            sections.append(section | {"more": more})
    curves = with_labels(study.tables["curves"])
    curves = curves[(curves["model"] == model) & (curves["dataset"] == dataset)]
    pages = cells.drop_duplicates("page")[["page", "strategy"]].to_numpy()
    return {
        "pages": [(path, study.strategy_title(strategy)) for path, strategy in pages],
        "model_page": model_page(model) if model in study.architectures else None,
        "size": done.iloc[0] if len(done) else None,
        "gaps": study.with_titles(cells[cells["status"] != "ok"]).to_dict("records"),
        "sections": sections,
        "curves": table(study.with_links(curves, study.results_pages[model, dataset]), _CURVES),
    }

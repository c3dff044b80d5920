"""Make the pages of results: one for each model on each dataset."""

from collections.abc import Iterator
from typing import Any

import pandas as pd
from markupsafe import Markup

from nodewise.report.context import ReportContext
from nodewise.report.html import breakable
from nodewise.report.page import Page, model_page, results_page
from nodewise.report.pages import _scaling, page
from nodewise.report.tables import AGAINST_ONE, BATCH, KIND, NODE, NODES, STRATEGY, Table, table

_BEST = [STRATEGY, AGAINST_ONE, NODES, BATCH, NODE, KIND]


@page("results")
def pages(study: ReportContext) -> Iterator[Page]:
    """Yield a page for each model on each dataset, and the page that lists them."""
    listed = []
    for key, cells in study.cells.groupby(["dataset", "model"]):
        dataset, model = map(str, key)
        path = results_page(model, dataset)
        title = f"{study.model_title(model)} on {study.dataset_title(dataset)}"
        context = _results(study, model, dataset, cells)
        listed.append({"page": path, "title": title, "cells": len(cells), **context})
        yield Page(path, "results/model.md.j2", title, context, figures=True)
    context = {"results": listed}
    yield Page("results/index.html", "results/index.md.j2", "Results", context, contents=False)


def _results(study: ReportContext, model: str, dataset: str, cells: pd.DataFrame) -> dict[str, Any]:
    own = {"model": model, "dataset": dataset}
    rows = study.compared
    rows = rows[(rows["model"] == model) & (rows["dataset"] == dataset)]
    ends = _scaling.largest_and_smallest_batch(rows)
    main = own | ({name: ends[0][name] for name in ("experiment", "line")} if ends else {})
    done = cells[cells["status"] == "ok"]
    shown = [("speedup", "time"), ("strategies",), ("parts",)]
    figures = [one for names in shown for one in _scaling.first_figure(study, *names, **main)]
    figures += _scaling.first_figure(study, "accuracy", **own)
    return {
        "ends": ends,
        "run": _scaling.time_to_accuracy(study, ends[0]) if ends else None,
        "where": study.with_titles(pd.DataFrame(ends)).to_dict("records")[0] if ends else None,
        "pages": dict(zip(cells["strategy"], cells["page"], strict=True)),
        "model_page": model_page(model) if model in study.architectures else None,
        "size": done.iloc[0] if len(done) else None,
        "gaps": study.with_titles(cells[cells["status"] != "ok"]).to_dict("records"),
        "figures": figures,
        "strategies": _best(study, rows, cells),
    }


def _best(study: ReportContext, rows: pd.DataFrame, cells: pd.DataFrame) -> Table:
    """Return the best point of each strategy that counts, the fastest strategy first.

    Strategies link to their curves. Strategies without a point that counts have dashes.
    """
    up = "../" * results_page("", "").count("/")
    best = pd.DataFrame(
        [best[0] for _, one in rows.groupby("strategy") if (best := _scaling.extremes(one))],
        columns=rows.columns,
    )
    pages = cells.drop_duplicates("strategy")[["strategy", "page"]]
    shown = pages.merge(best, "left", "strategy").sort_values("speedup", ascending=False)
    link = Markup('<a href="{}">{}</a>')
    titles = [
        link.format(f"{up}{page}", breakable(study.strategy_title(name)))
        for name, page in shown[["strategy", "page"]].to_numpy()
    ]
    return table(study.with_titles(shown).assign(strategy=titles), _BEST)

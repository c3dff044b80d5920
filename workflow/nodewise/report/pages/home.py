"""Make the home page: how far real models scale, how sure that is, and what this study adds."""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from nodewise.core.cell import node_in_words
from nodewise.core.units import write_number
from nodewise.report import evidence
from nodewise.report.context import ReportContext
from nodewise.report.page import Page
from nodewise.report.pages import page
from nodewise.report.pages._scaling import largest_and_smallest_batch, time_to_accuracy
from nodewise.report.pages.time_to_accuracy import SHOWN, published_batches
from nodewise.report.pages.your_case import title_of_link
from nodewise.report.published_rows import SLOW, scaling
from nodewise.report.tables import COVERED, ERROR_HALF, ERROR_MOST, Column, table
from nodewise.results import comparisons, published
from nodewise.results.queries import POINT
from nodewise.study.experiment import EVIDENCE_REPEATS

_BUT_LINK = ["model", "dataset", "machine", "line", "label", "cpu_share", *POINT]
_CHART = ["experiment", "model", "line"]
_SHOWN = ["ResNet-50", "BERT-base"]  # models in the first sentence
_DEVICES = 8  # Eight, in the template
_ENOUGH = 20  # points of a link between machines, to be listed
_JUDGED = [
    Column("link", "Devices connected by"),
    Column("points", "Forecasts"),
    Column("publishers", "Publishers"),
    ERROR_HALF,
    ERROR_MOST,
    COVERED,
]


@page("home")
def pages(study: ReportContext) -> Iterator[Page]:
    """Yield the home page."""
    batches, judged, ours = [*published_batches()], _judged(), _study(study)
    context = {
        "models": [_model(name) for name in _SHOWN],
        "figures": study.pick("real_scaling"),
        "judged": table(judged, _JUDGED),
        "all": judged.iloc[0],
        "known": len(batches),
        "samples": [row for row in batches if row["benchmark"] in SHOWN],
        "study": ours,
        "unsure": None if ours else _unsure(study),
        "two": lambda value: write_number(value, "times"),
        "links": _links(study),
        "cells": {"all": len(study.cells), "lost": int((study.cells["status"] != "ok").sum())},
    }
    yield Page("index.html", "index.md.j2", "Home", context, True, contents=False)


def _model(name: str) -> dict[str, Any]:
    """Return how much faster devices train a model with the fastest and with a slow link."""
    rows = scaling().query("model == @name and devices == @_DEVICES")
    fast = rows[(rows["link"] == "NVLink") & (rows["kind"] == "published")]
    slow = rows[rows["link"] == SLOW].iloc[0]
    return {
        "name": name,
        "fast": _DEVICES * fast["efficiency"].median(),
        "publishers": len(fast),
        "slow": [_DEVICES * slow[end] for end in ("efficiency", "low", "high")],
    }


def _judged() -> pd.DataFrame:
    """Return how far forecasts were off: of all links, within machines, and between machines."""
    rows = published.read("forecast/judged")
    between = rows["link"].str.contains("gbit") & (rows["points"] >= _ENOUGH)
    listed = between | rows["link"].isin(["all", "within a node"])
    rows = rows[listed].sort_values("points", ascending=False)
    return rows.assign(link=rows["link"].map(title_of_link))


def _counted(study: ReportContext) -> pd.DataFrame:
    """Return the points on several nodes that count as evidence.

    Only strategies that sum the gradients of all nodes in every step are considered, because an
    example contributes less with other strategies.
    """
    rows = study.compared
    return rows[(rows["lacks"] == "") & comparisons.sum_gradients(rows)]


def _study(study: ReportContext) -> dict[str, Any] | None:
    """Return how much faster the most nodes of this study are, and how soon they are done.

    The curve with the most points that count is used, at its largest and its smallest batch. None
    is returned if too little was measured.
    """
    points = largest_and_smallest_batch(_counted(study))
    if not points:
        return None
    first = points[0]
    return {
        "model": study.model_title(first["model"]),
        "cluster": node_in_words(first["cluster"]),
        "machine": first["machine"],
        "nodes": int(first["nodes"]),
        "kind": first["label"],
        "points": points,
        "target": time_to_accuracy(study, first),
        "figures": study.pick("speedup", **{axis: first[axis] for axis in _CHART})[:1],
    }


def _unsure(study: ReportContext) -> dict[str, Any]:
    """Return the best current answer of a study without evidence, and what it lacks.

    It is that of the point with the highest speed-up among those that lack least.
    """
    rows = study.compared[comparisons.sum_gradients(study.compared)]
    least = rows["lacks"].str.count(" ")
    best = rows[least == least.min()].nlargest(1, "speedup").to_dict("records")
    shown = {axis: best[0][axis] for axis in _CHART} if best else {}
    return {
        "best": [
            one
            | {
                "model": study.model_title(one["model"]),
                "cluster": node_in_words(one["cluster"]),
                "needs": evidence.lacks_in_words(one["lacks"]),
            }
            for one in best
        ],
        "cautions": int((study.cells["flags"] != "").sum()),
        "launches": EVIDENCE_REPEATS,
        "figures": study.pick("speedup", **shown)[:1],
    }


def _links(study: ReportContext) -> dict[str, Any] | None:
    """Return the points of this study that differ in nothing but the rate of the link.

    It has the slowest and the fastest link; None if only one rate was measured.
    """
    rows = _counted(study)
    rows = rows[rows["nodes_per_machine"].eq(1) & rows["rate_mbit"].notna()]
    groups = [one for _, one in rows.groupby(_BUT_LINK) if one["rate_mbit"].nunique() > 1]
    if not groups:
        return None
    ends = max(groups, key=lambda one: one["rate_mbit"].nunique()).sort_values("rate_mbit")
    return {
        "model": study.model_title(ends["model"].iloc[0]),
        "ends": ends.iloc[[0, -1]].to_dict("records"),
    }

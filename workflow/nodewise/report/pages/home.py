"""The home page: what the study found, in three numbers and one figure."""

from collections.abc import Iterator
from typing import Any

import pandas as pd
from markupsafe import Markup

from nodewise.core.units import counted
from nodewise.predict import comparisons, queries
from nodewise.report.context import ReportContext
from nodewise.report.html import badge, between_launches, data, number, text
from nodewise.report.page import Page
from nodewise.report.pages import page

# whose answer comes first: that of machines of our own, if there are any
_SOURCES = ("emulated", "emulated soft", "measured", "published")


@page("home")
def pages(study: ReportContext) -> Iterator[Page]:
    """Yield the home page."""
    # of what was measured most
    figures = sorted(study.pick("time"), key=lambda one: one.csv.count("\n"), reverse=True)[:1]
    context = {
        "headlines": [*_pays_from(study), *_measured(study), *_predicted(study)],
        "figures": figures,
        "cells": {"all": len(study.cells), "lost": int((study.cells["status"] != "ok").sum())},
    }
    yield Page("index.html", "index.md.j2", "Home", context, bool(figures), contents=False)


def _pays_from(study: ReportContext) -> list[dict[str, Any]]:
    """Return from how many nodes on it pays, batch by batch, of the curve with most points."""
    optima, predictions = study.overhead["optima"], study.overhead["predictions"]
    held = optima[(optima["objective"] == "efficiency") & (optima["held"] == "batch_per_worker")]
    pays = held[held["break_even"]]
    seen = predictions[predictions["observed_s"].notna() & predictions["curve"].isin(pays["curve"])]
    points = seen.groupby(["source", "curve"]).size()
    source = next((one for one in _SOURCES if one in points.index.get_level_values(0)), None)
    if source is None:
        return []
    curve = str(points.xs(source).idxmax())
    line = pays[pays["curve"] == curve].sort_values("batch_per_worker")
    each = "; ".join(
        f"{batch:,.0f}: {nodes:,.0f} nodes"
        for batch, nodes in line[["batch_per_worker", "nodes"]].to_numpy()
    )
    ends = line.sort_values("nodes").iloc[[0, -1]]
    reach = Markup(" to ").join(dict.fromkeys(data(nodes, "") for nodes in ends["nodes"]))
    kinds = Markup(" ").join(badge(kind) for kind in dict.fromkeys(ends["kind"]))
    trained = seen[seen["curve"] == curve].iloc[0]
    said = Markup(
        "are needed, by the formula, before {} trains {} faster than it does on one node ({}). By "
        "batch per worker: {}."
    ).format(
        text(study.strategy_title(trained["strategy"])),
        text(study.model_title(trained["model"])),
        text(_where(study, trained)),
        text(each),
    )
    number_of = Markup('<span class="nw-interval">{} nodes</span> {}').format(reach, kinds)
    return [{"number": number_of, "text": said}]


def _where(study: ReportContext, point: "pd.Series[Any]") -> str:
    """Return in words what the nodes of a curve are; of a published one, whose they are."""
    if point["source"] == "published":
        return f"the machines of the study {point['study']}"
    curves = study.tables["curves"]
    of = curves[(curves["experiment"] == point["experiment"]) & (curves["nodes"] > 1)].iloc[0]
    emulated = of["kind"].startswith("emulated")
    nodes = f"emulated nodes of {of['cluster']}" if emulated else "processes of one machine"
    return f"{nodes}; {of['machine']}"


def _measured(study: ReportContext) -> list[dict[str, Any]]:
    """Return the best speed-up on several nodes without a caution.

    Only ways that sum the gradients of all nodes in every step: others count examples that help
    less.
    """
    rows = comparisons.fair(comparisons.on_several_nodes(study.tables["curves"]))
    speed = rows[rows["exchange"].isin(comparisons.WHOLE_GRADIENTS)]
    if speed.empty:
        return []
    best = comparisons.launched_again(speed).sort_values("speedup", kind="stable").iloc[-1]
    said = Markup(
        "is the highest speed-up of a strategy that sums all gradients in every step{}: {}."
    ).format(between_launches(best, best["label"]), study.point(best))
    return [{"number": number(best["speedup"], "×", best["label"]), "text": said}]


def _predicted(study: ReportContext) -> list[dict[str, Any]]:
    """Return the error of the predictions of held-out points: ours, or else the published."""
    held = queries.held_out(study.overhead["trials"])
    for source in _SOURCES:
        errors = held.loc[held["source"] == source, "error"]
        if len(errors):
            said = Markup(
                "is the median error of predicted step times, {} at worst, at {} with more nodes "
                "than the formula was fitted to (points with a caution included)."
            ).format(
                number(errors.max(), "share", "predicted"),
                text(counted(len(errors), f"{source} point")),
            )
            return [{"number": number(errors.median(), "share", "predicted"), "text": said}]
    return []

"""The home page: what the study found, in three numbers and one figure."""

from collections.abc import Iterator
from typing import Any

import pandas as pd
from markupsafe import Markup

from nodewise import comparisons, views
from nodewise.pages.markup import badge, number
from nodewise.pages.study import Page, Study
from nodewise.quantities import counted


def pages(study: Study) -> Iterator[Page]:
    """Yield the home page."""
    # of what was measured most
    figures = sorted(study.pick("time"), key=lambda one: one.csv.count("\n"), reverse=True)[:1]
    context = {
        "headlines": [*_measured(study), *_predicted(study)],
        "figures": figures,
        "cells": {"all": len(study.cells), "lost": int((study.cells["status"] != "ok").sum())},
    }
    yield Page("index.html", "index.md.j2", "Home", context, bool(figures), contents=False)


def _measured(study: Study) -> list[dict[str, Any]]:
    """Return the best speed-up and the smallest batch that pays, of nodes and without a caution.

    Only ways that sum the gradients of all nodes in every step: others count examples that help
    less.
    """
    rows = comparisons.fair(comparisons.on_several_nodes(study.tables["curves"]))
    speed = rows[rows["exchange"].isin(comparisons.WHOLE_GRADIENTS)]
    if speed.empty:
        return []
    best = speed.sort_values("speedup", kind="stable").iloc[-1]
    headlines = [
        {
            "number": number(best["speedup"], "×", best["label"]),
            "text": Markup("the throughput of one node{}: the best speed-up, of {}").format(
                _interval(best), study.point(best)
            ),
        }
    ]
    at = comparisons.OVER_BATCHES
    lines = speed[speed.groupby(at)["batch_per_worker"].transform("nunique") > 1]
    pays = lines[lines["speedup"] > 1]
    if pays.empty:
        gains = int((speed["speedup"] > 1).sum())
        points = counted(len(speed), "point")
        said = f"{gains} of {points} on several nodes: so many were faster than one node"
        return [*headlines, {"number": badge(best["label"]), "text": said}]
    first = pays.sort_values(["batch_per_worker", "nodes"], kind="stable").iloc[0]
    said = Markup("examples per worker and step: the smallest batch that paid, of {}").format(
        study.point(first, batch=False)
    )
    value = number(first["batch_per_worker"], "", first["label"])
    return [*headlines, {"number": value, "text": said}]


def _interval(row: "pd.Series[Any]") -> Markup:
    """Return what the launches of both points leave possible, if both were launched twice."""
    if pd.isna(row["speedup_low"]):
        return Markup(", launched once")
    ends = (number(row[f"speedup_{end}"], "×", row["label"]) for end in ("low", "high"))
    return Markup(" ({} to {} by the launches)").format(*ends)


def _predicted(study: Study) -> list[dict[str, Any]]:
    """Return the error of the predictions of held-out points: ours, or else the published."""
    held = views.held_out(study.overhead["trials"])
    for source in ("emulated", "emulated soft", "measured", "published"):
        errors = held.loc[held["source"] == source, "error"]
        if len(errors):
            said = Markup(
                "median error of the formulas, {} at worst, on {} {} points on more nodes than any "
                "of their curve that they were fitted to, those with a caution included"
            ).format(number(errors.max(), "share", "predicted"), len(errors), source)
            return [{"number": number(errors.median(), "share", "predicted"), "text": said}]
    return []

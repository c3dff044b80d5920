"""The home page: what the study found, in three numbers and one figure."""

from collections.abc import Iterator
from typing import Any

from nodewise import views
from nodewise.pages.markup import badge, number
from nodewise.pages.study import Page, Study


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
    """Return the best speed-up and the smallest batch that pays, of nodes and without a caution."""
    speed = views.speedups(study.tables["curves"])
    speed = speed[(speed["nodes"] > 1) & (speed["flags"] == "")]
    speed = speed[speed["exchange"] != "devices"]  # of one machine
    if speed.empty:
        return []
    best = speed.sort_values("speedup").iloc[-1]
    headlines = [
        {
            "number": number(best["speedup"], "×", best["kind"]),
            "text": f"the throughput of one node: the best speed-up, of "
            f"{study.model_title(best['model'])} on {best['nodes']} nodes by {best['line']} with "
            f"{best['batch_per_worker']} examples per worker and step",
        }
    ]
    pays = speed[speed["speedup"] > 1]
    if pays.empty:
        text = "At no batch size did more nodes train faster than one."
        return [*headlines, {"number": badge(best["kind"]), "text": text}]
    first = pays.sort_values(["batch_per_worker", "nodes"]).iloc[0]
    text = (
        f"examples per worker and step: the smallest batch at which {first['nodes']} nodes train "
        f"{study.model_title(first['model'])} faster than one"
    )
    value = number(first["batch_per_worker"], "", first["kind"])
    return [*headlines, {"number": value, "text": text}]


def _predicted(study: Study) -> list[dict[str, Any]]:
    """Return the error of the predictions of held-out points: ours, or else the published."""
    held = views.held_out(study.overhead["trials"])
    for source in ("emulated", "emulated soft", "measured", "published"):
        errors = held.loc[held["source"] == source, "error"]
        if len(errors):
            text = (
                f"median error of the formulas on {len(errors)} {source} points on more nodes than "
                "any that they were fitted to"
            )
            return [{"number": number(errors.median(), "share", "predicted"), "text": text}]
    return []

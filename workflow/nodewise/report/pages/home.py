"""Make the home page: the answer in two sentences, two numbers and one figure."""

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd
from markupsafe import Markup

from nodewise.core.units import counted
from nodewise.predict.judge import EACH
from nodewise.report import evidence
from nodewise.report.comparison_words import join_words
from nodewise.report.context import ReportContext
from nodewise.report.html import badge, data, number, text
from nodewise.report.page import Page
from nodewise.report.pages import page
from nodewise.results import comparisons

# sources of points in order of preference: our own measurements first
_SOURCES = ("emulated", "emulated soft", "measured", "published")
_CURVE = ["experiment", "model", "dataset", "cluster", "machine", "line", "label"]


@page("home")
def pages(study: ReportContext) -> Iterator[Page]:
    """Yield the home page."""
    answer = _answer(study)
    figures = answer["figures"] if answer else []
    if not figures:  # fall back to the chart with the most data
        figures = sorted(study.pick("time"), key=lambda one: one.csv.count("\n"), reverse=True)[:1]
    context = {
        "answer": answer,
        "headlines": [*_pays_from(study), *_predicted(study)],
        "figures": figures,
        "cells": {"all": len(study.cells), "lost": int((study.cells["status"] != "ok").sum())},
    }
    yield Page("index.html", "index.md.j2", "Home", context, bool(figures), contents=False)


def _pays_from(study: ReportContext) -> list[dict[str, Any]]:
    """State for each batch from how many nodes on training is faster than on one.

    The curve with most points is used, of the first of `_SOURCES` that has any. The list is empty
    if there is none.
    """
    optima, predictions = study.overhead["optima"], study.overhead["predictions"]
    pays = optima[(optima["job"] != "run") & optima["break_even"]]
    seen = predictions[predictions["observed_s"].notna() & predictions["curve"].isin(pays["curve"])]
    points = seen.groupby(["source", "curve"]).size()
    source = next((one for one in _SOURCES if one in points.index.get_level_values(0)), None)
    if source is None:
        return []
    curve = str(points.xs(source).idxmax())
    line = pays[pays["curve"] == curve].sort_values("batch_per_worker")
    batches, counts = line["batch_per_worker"].to_numpy(), line["nodes"].to_numpy()
    each = [f"{n:,.0f} with {batch:,.0f}" for batch, n in zip(batches, counts, strict=True)]
    each[0] += " examples per node"
    ends = line.sort_values("nodes").iloc[[0, -1]]
    reach = Markup(" to ").join(dict.fromkeys(data(nodes, "") for nodes in ends["nodes"]))
    kinds = Markup(" ").join(badge(kind) for kind in dict.fromkeys(ends["kind"]))
    trained = seen[seen["curve"] == curve].iloc[0]
    sentence = Markup(
        "are needed to train {} faster than on one: {}. By the formula for {} on {}."
    ).format(
        text(study.model_title(trained["model"])),
        text(join_words(each)),
        text(study.strategy_title(trained["strategy"])),
        text(_where(study, trained)),
    )
    number_of = Markup('<span class="nw-interval">{} nodes</span> {}').format(reach, kinds)
    return [{"number": number_of, "text": sentence}]


def _where(study: ReportContext, point: "pd.Series[Any]") -> str:
    """Describe the nodes of a curve; for a published curve, name the study."""
    if point.get("source") == "published":
        return f"the machines of the study {point['study']}"
    curves = study.tables["curves"]
    of = curves[(curves["experiment"] == point["experiment"]) & (curves["nodes"] > 1)].iloc[0]
    emulated = of["kind"].startswith("emulated")
    nodes = f"emulated nodes of {of['cluster']}" if emulated else "processes of one machine"
    return f"{nodes}; {of['machine']}"


def _answer(study: ReportContext) -> dict[str, Any] | None:
    """Return how much faster the most nodes are, at the largest and the smallest batch.

    The curve with the most points that count as evidence is used. Only strategies that sum the
    gradients of all nodes in every step are considered, because an example contributes less with
    other strategies. None is returned if too little was measured.
    """
    rows = comparisons.on_several_nodes(study.tables["curves"])
    rows = evidence.check_times(rows, study.tables, other="_one")
    counts = (rows["lacks"] == "") & comparisons.sum_gradients(rows)
    curves = [rows for _, rows in rows[counts].groupby(_CURVE)]
    if not curves:
        return None
    curve = max(curves, key=len)
    last = curve[curve["nodes"] == curve["nodes"].max()].sort_values("batch_per_worker")
    largest, smallest = last.iloc[-1], last.iloc[0]
    ends = [largest] if len(last) == 1 else [largest, smallest]
    return {
        "short": _in_short(ends),
        "sentences": [_sentence(study, end, first=end is largest) for end in ends],
        "where": _where(study, largest),
        "figures": study.pick(
            "speedup", **{name: largest[name] for name in ("experiment", "model", "line")}
        )[:1],
        "strategy": study.strategy_title(largest["line"]),
        "kind": largest["label"],
    }


def _in_short(ends: Sequence["pd.Series[Any]"]) -> str:
    faster = {bool(end["speedup_low"] > 1) for end in ends}
    if len(faster) > 1:
        return "It depends on the batch."
    return "More nodes are faster." if faster == {True} else "One node is enough."


def _sentence(study: ReportContext, point: "pd.Series[Any]", *, first: bool) -> Markup:
    """Say whether the nodes of a point are faster than one, and how sure that is."""
    model = f"{study.model_title(point['model'])} with" if first else "With"
    batch = f"{model} {counted(point['batch_per_worker'], 'example')} per node"
    nodes = counted(point["nodes"], "node")
    if point["speedup_low"] > 1:
        sentence = f"{batch} trains {{}} times as fast on {nodes} as on one ({{}})."
    else:
        slower = "slower" if point["speedup_high"] < 1 else "not clearly faster"
        sentence = f"{batch}, {nodes} are {slower} than one: {{}} times as fast ({{}})."
    speedup, low, high = (
        f"{point[f'speedup{end}']:#.2g}".removesuffix(".") for end in ("", "_low", "_high")
    )
    return text(sentence.format(speedup, f"90\u00a0% interval {low} to {high}"))


def _predicted(study: ReportContext) -> list[dict[str, Any]]:
    """State the error of predictions for node counts that were left out of the fit in turn.

    The first of `_SOURCES` that has such predictions is used; the list is empty if none has.
    """
    judged = study.overhead["judgement"]
    judged = judged[judged["own"] & (judged["scenario"] == EACH)]
    rows = {row["source"]: row for row in judged.to_dict("records")}
    for source in _SOURCES:
        if of := rows.get(source):
            sentence = Markup(
                "is the median error of a predicted step time; the largest is {}. Each of {} was "
                "predicted from other numbers of nodes (points with a caution included)."
            ).format(
                number(of["worst_error"], "share", "predicted"),
                text(counted(of["points"], f"{source} point")),
            )
            return [{"number": number(of["median_error"], "share", "predicted"), "text": sentence}]
    return []

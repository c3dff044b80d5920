"""Make the pages of strategies: one for each, and the page that compares them."""

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from nodewise.core.exchanges import Step
from nodewise.report.context import ReportContext
from nodewise.report.html import breakable
from nodewise.report.page import Page, strategy_page
from nodewise.report.pages import page
from nodewise.report.pages._scaling import extremes, first_figure
from nodewise.report.tables import BYTES_SENT, KIND, MODEL, NODES, STRATEGY, Column, table
from nodewise.strategies import STRATEGIES

PAGE = "page.md"
EXAMPLE = Step(nodes=8, payload_bytes=100e6, steps_per_epoch=1000)
"""For the bytes of the page that compares strategies: eight nodes, a gradient as ResNet-50's."""

_TITLE = re.compile("<title[^>]*>(.*?)</title>")
# the columns that distinguish the points of a study
_AT = ["experiment", "model", "strategy", "cluster", "batch_per_worker", "nodes", "whole_epochs"]
_BYTES = [
    MODEL,
    STRATEGY,
    NODES,
    Column("payload_bytes", "Payload", "B", "counted"),
    BYTES_SENT,
    Column("formula_bytes", "By the formula", "B", "counted"),
    Column("ratio", "Sent ÷ formula", "×", kind_from="label"),
    KIND,
]
_LISTED = [
    Column("title", "Strategy"),
    Column("best", "At best", "×", kind_from="label"),
    Column("worst", "At worst", "×", kind_from="worst_label"),
    Column("sends", "Sends", "B", "counted"),
    Column("waits", "Waits for the others"),
    Column("needs", "Needs", wide=True),
    KIND,
    Column("worst_label", "Kind at worst"),
]


@page("strategies")
def pages(study: ReportContext) -> Iterator[Page]:
    """Yield a page per strategy, and the page that compares them."""
    listed = []
    for name, entry in STRATEGIES.items():
        cells = study.cells[study.cells["trained_with"] == name]
        ends = extremes(study.compared[study.compared["cell_id"].isin(cells["cell_id"])])
        address = strategy_page(name)
        link = Markup('<a href="{}">{}</a>').format(Path(address).name, breakable(entry.title))
        options = entry.options().model_dump()
        step = Step(EXAMPLE.nodes, EXAMPLE.payload_bytes, options, EXAMPLE.steps_per_epoch)
        listed.append(
            {
                "title": link,
                "best": ends[0]["speedup"] if ends else None,
                "low": ends[0]["speedup_low"] if ends else None,
                "worst": ends[-1]["speedup"] if ends else None,
                "label": ends[0]["label"] if ends else None,
                "worst_label": ends[-1]["label"] if ends else None,
                "sends": entry.exchange_of(options).traffic(step).bytes_sent,
                "waits": "–" if entry.nodes == "1" else entry.exchange.waits,
                "needs": entry.needs,
            }
        )
        context = _strategy(study, name, cells, ends)
        described = (entry.folder / PAGE).is_file()
        template = f"{name}/{PAGE}" if described else "strategies/strategy.md.j2"
        yield Page(address, template, entry.title, context, figures=True, contents=False)
    rows = pd.DataFrame(listed).sort_values("best", ascending=False, kind="stable")
    context = {
        "table": table(rows, _LISTED),
        "example": EXAMPLE,
        "measured": int(rows["best"].notna().sum()),
        "somewhere": int((rows["low"] > 1).sum()),
        "everywhere": int((rows["worst"] > 1).sum()),
    }
    path = "strategies/index.html"
    yield Page(path, "strategies/index.md.j2", "Strategies", context, contents=False)


def read_diagrams(folder: Path) -> list[tuple[str, Markup]]:
    """Return the title and the SVG element of each file `diagram*.svg` of a strategy's folder.

    The SVG elements are embedded in the page, so that its style sheet sets their colours.
    """
    sources = [path.read_text(encoding="utf-8") for path in sorted(folder.glob("diagram*.svg"))]
    return [
        # safe: the file is part of the installed code, not input of a user
        (unescape(_TITLE.findall(one)[0]), Markup(one[one.index("<svg") :].rstrip()))  # noqa: S704
        for one in sources
    ]


def _strategy(
    study: ReportContext, name: str, cells: pd.DataFrame, ends: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return the template variables of a strategy that was trained in `cells`."""
    strategy = STRATEGIES[name]
    variants = cells["strategy"].value_counts(sort=False).sort_index()
    sent = _bytes(study, name, cells)
    of = {one: ends[0][one] for one in ("experiment", "model", "line")} if ends else {}
    return {
        "name": name,
        "strategy": strategy,
        "ends": study.with_titles(pd.DataFrame(ends)).to_dict("records"),
        "figures": first_figure(study, "strategies", "speedup", **of) if ends else [],
        "parts": first_figure(study, "parts", **of) if ends else [],
        "diagrams": read_diagrams(strategy.folder),
        "options": [
            (option, str(field.default).lower())  # as a configuration has it
            for option, field in strategy.options.model_fields.items()
        ],
        "bytes": table(study.with_titles(sent), _BYTES) if len(sent) else None,
        "links": [
            {"name": one, "title": study.strategy_title(str(one)), "cells": int(size)}
            for one, size in variants.items()
        ],
    }


def _bytes(study: ReportContext, name: str, cells: pd.DataFrame) -> pd.DataFrame:
    """Return what a node sends per step, as measured and by the formula, by model and nodes.

    The columns `formula_bytes` and `ratio` are NaN where the formula needs more than is known.
    """
    done = cells[cells["status"] == "ok"].drop_duplicates(_AT)
    values = done[["cell_id", "payload_bytes", "steps_per_epoch"]].to_numpy()
    sent = []
    for cell_id, payload, steps in values:
        cell = study.records[cell_id].cell
        step = Step(cell.nodes, payload, cell.options, int(steps))
        sent.append(STRATEGIES[name].exchange_of(cell.options).traffic(step).bytes_sent)
    formula = done[_AT].assign(formula_bytes=pd.Series(sent, index=done.index, dtype="float64"))
    curves = study.points.query("nodes > 1")
    rows = curves.merge(formula, "inner", _AT)
    something = rows["formula_bytes"].where(rows["formula_bytes"] > 0)
    rows = rows.assign(ratio=rows["bytes_sent_per_step"] / something)
    same = ["model", "strategy", "nodes", "payload_bytes", "formula_bytes"]
    return rows.drop_duplicates(same).sort_values(same)  # other batches send as much

"""Make the pages of strategies: one for each, and the page that compares them."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import pandas as pd
from markupsafe import Markup

from nodewise.core.errors import UserError
from nodewise.core.exchanges import Job
from nodewise.report.addresses import strategy_page
from nodewise.report.charts import Chart
from nodewise.report.context import ReportContext
from nodewise.report.page import Page
from nodewise.report.pages import page
from nodewise.report.tables import (
    BATCH,
    BYTES_SENT,
    EXPERIMENT,
    FLAGS,
    KIND,
    LAUNCH,
    MODEL,
    NODE,
    NODES,
    STRATEGY,
    Column,
    Table,
    table,
)
from nodewise.report.titles import title_of_variant
from nodewise.results import comparisons
from nodewise.results.columns import PARTS
from nodewise.results.queries import with_labels
from nodewise.strategies import STRATEGIES

PAGE = "page.md"
COUNTED = "counted"
_SVG = "{http://www.w3.org/2000/svg}"
_NOTED = {
    "bubble_share": "Idle or communicating share of a step (includes the bubble)",
    "staleness": "Staleness: updates between reading the weights and applying their gradient",
    "lead": "Lead: steps that a worker is ahead of the slowest",
    "held_s": "Held: how long a worker that was ahead had to wait",
    "mean_step_s": "Step time, averaged over the ranks (MPI reduce)",
    "bytes_counted": "Size of the compressed gradients",
}

# the columns that distinguish the points of a study
_AT = [
    *("experiment", "model", "strategy", "cluster", "batch_per_worker", "nodes"),
    "whole_epochs",
]
_OPTIONS = Column("chosen", "Options", wide=True)
_POINT = [
    MODEL,
    EXPERIMENT,
    STRATEGY,
    _OPTIONS,
    NODE,
    BATCH,
    NODES,
    KIND,
]
_SPLIT = [
    *_POINT,
    Column("step_time_s", "Step time", "s", kind_from="label"),
    *(Column(f"{part}_s", part.capitalize(), "s", kind_from="label") for part in PARTS),
    FLAGS,
]
_BYTES = [
    *_POINT,
    Column("payload_bytes", "Payload", "B", COUNTED),
    BYTES_SENT,
    Column("formula_bytes", "By the formula", "B", COUNTED),
    Column("ratio", "Sent ÷ formula", "×", kind_from="label"),
]


@page("strategies")
def pages(study: ReportContext) -> Iterator[Page]:
    """Yield a page per strategy, and the page that compares them."""
    listed = []
    at = zip(study.cells["experiment"], study.cells["strategy"], strict=True)
    strategies = pd.Series([study.trained_with[one] for one in at], study.cells.index, "str")
    for name, entry in STRATEGIES.items():
        cells = study.cells[strategies == name]
        called = cells.groupby("strategy")["cell_id"].agg(["first", "size"])
        links = [
            {
                "name": one,
                "variant": title_of_variant(study.records[cell].cell),
                "cells": int(count),
            }
            for one, cell, count in called.itertuples()
        ]
        path, shared = (
            strategy_page(name),
            {"exchange": entry.exchange, "needs": entry.needs, "links": links},
        )
        listed.append(shared | {"name": name, "page": path, "title": entry.title})
        context = shared | _strategy(study, name, cells)
        figures = bool(context["figures"])
        described = (entry.folder / PAGE).is_file()
        template = f"{name}/{PAGE}" if described else "strategies/strategy.md.j2"
        yield Page(path, template, entry.title, context, figures, contents=False)
    yield Page(
        *("strategies/index.html", "strategies/index.md.j2", "Strategies", {"listed": listed}),
        contents=False,
    )


class Diagram(NamedTuple):
    """A diagram of what nodes do in a step: its title and its SVG element."""

    title: str
    svg: Markup


def read_diagrams(folder: Path) -> list[Diagram]:
    """Read the files `diagram*.svg` of a strategy's folder, in the order of their names.

    The SVG elements are embedded in the page, so that its style sheet sets their colours.

    Raises:
        UserError: a file is not SVG, or has no title.
    """
    found = []
    for path in sorted(folder.glob("diagram*.svg")):
        source = path.read_text(encoding="utf-8")
        try:
            # safe: the file is part of the installed code, not input of a user
            title = ElementTree.fromstring(source).findtext(f"{_SVG}title")  # noqa: S314
        except ElementTree.ParseError as error:
            raise UserError(f"{path}: is not SVG: {error}") from error
        if not title:
            raise UserError(f"{path}: has no <title>, which is the caption of the diagram")
        element = source[source.index("<svg") :].rstrip()
        found.append(Diagram(title, Markup(element)))  # noqa: S704 (likewise)
    return found


def _strategy(study: ReportContext, name: str, cells: pd.DataFrame) -> dict[str, Any]:
    curves = _curves(study, cells)
    split = comparisons.split(curves)
    several = _with_formula(study, name, cells, curves[curves["nodes"] > 1])
    figures = _figures(study, cells)
    return {
        "name": name,
        "cells": len(cells),
        "diagrams": read_diagrams(STRATEGIES[name].folder),
        "nodes": STRATEGIES[name].nodes,
        "options": [
            (option, str(field.default).lower())  # as a configuration has it
            for option, field in STRATEGIES[name].options.model_fields.items()
        ],
        "figures": figures[:3],
        "more": figures[3:],
        "split": _table(study, split, _SPLIT) if len(split) else None,
        "bytes": _table(study, several, _bytes_columns(several)) if len(several) else None,
        "bytes_known": bool(several["formula_bytes"].notna().any()),
        "observations": list(_observations(study, cells)),
    }


def _curves(study: ReportContext, cells: pd.DataFrame) -> pd.DataFrame:
    """Return all points of the experiments and strategies of these cells."""
    at = ["experiment", "strategy"]
    return with_labels(study.tables["curves"]).merge(cells[at].drop_duplicates(), "inner", at)


def _table(study: ReportContext, rows: pd.DataFrame, columns: Sequence[Column]) -> Table:
    """Return a table of points; the column of options is left out if no point has any."""
    titled = study.with_titles(rows).assign(chosen=rows["options"].map(_options_in_words))
    some = (titled["chosen"] != "").any()
    shown = columns if some else [one for one in columns if one is not _OPTIONS]
    return table(titled, shown)


def _bytes_columns(rows: pd.DataFrame) -> list[Column]:
    """Return the columns for `rows`, without those of the formula if it is unknown for all."""
    return _BYTES if rows["formula_bytes"].notna().any() else _BYTES[:-2]


def _options_in_words(options: str) -> str:
    """Return the options of a cell in words; options that are not set are left out."""
    chosen = json.loads(options or "{}")
    return ", ".join(
        f"{name} {str(value).lower()}"
        for name, value in chosen.items()
        if value not in (None, False)
    )


def _with_formula(
    study: ReportContext, name: str, cells: pd.DataFrame, curves: pd.DataFrame
) -> pd.DataFrame:
    """Add the bytes that a node sends by the formula, and the ratio of the measured bytes to them.

    The columns are `formula_bytes` and `ratio`; they are NaN where the formula is unknown.
    """
    done = cells[cells["status"] == "ok"].drop_duplicates(_AT)
    values = done[["cell_id", "payload_bytes", "steps_per_epoch"]].to_numpy()
    sent = []
    for cell_id, payload, steps in values:
        cell = study.records[cell_id].cell
        job = Job(cell.nodes, payload, cell.options, int(steps))
        sent.append(STRATEGIES[name].exchange_of(cell.options).traffic(job).bytes_sent)
    formula = done[_AT].assign(formula_bytes=pd.Series(sent, index=done.index, dtype="float64"))
    rows = curves.merge(formula, "left", _AT)
    something = rows["formula_bytes"].where(rows["formula_bytes"] > 0)
    return rows.assign(ratio=rows["bytes_sent_per_step"] / something)


def _figures(study: ReportContext, cells: pd.DataFrame) -> list[Chart]:
    """Return the figures of the parts of a step for all lines of these cells.

    Cells and figures are matched by the names that the study gives to strategies.
    """
    ours = set(cells[["experiment", "strategy"]].itertuples(index=False, name=None))
    charts = [study.pick("parts", experiment=one, line=line) for one, line in sorted(ours)]
    return list({chart.name: chart for of in charts for chart in of}.values())


def _observations(study: ReportContext, cells: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield a table for each quantity that the strategy observed."""
    noted = study.tables["observations"].merge(cells, "inner", "cell_id")
    for name, rows in noted.groupby("observation"):
        shown = _table(study, rows, _observed(_unit(str(name))))
        yield {"title": _in_words(str(name)), "table": shown}


def _observed(unit: str) -> list[Column]:
    return [
        *_POINT,
        LAUNCH,
        Column("values", "Values"),
        Column("mean", "Mean", unit, kind_from="label"),
        Column("median", "Median", unit, kind_from="label"),
        Column("p90", "90th percentile", unit, kind_from="label"),
        Column("largest", "Largest", unit, kind_from="label"),
    ]


def _in_words(observation: str) -> str:
    """Return the title of an observation: that in `_NOTED`, or its name without the suffix `_s`."""
    return _NOTED.get(observation) or observation.removesuffix("_s").replace("_", " ").capitalize()


def _unit(observation: str) -> str:
    """Return the unit of an observation, which follows from its name.

    It is seconds, bytes or a share; otherwise the observation is a count.
    """
    if observation.endswith("_s"):
        return "s"
    if observation.endswith("_share"):
        return "share"
    return "B" if observation.startswith("bytes_") else "mean"

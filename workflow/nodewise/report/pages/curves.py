"""Make a page for each model and strategy, with all its points."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pandas as pd

from nodewise.core.units import counted
from nodewise.report import evidence
from nodewise.report.context import ReportContext
from nodewise.report.fitted_curves import fitted_curves
from nodewise.report.html import badge, slug
from nodewise.report.page import Page, results_page, strategy_page
from nodewise.report.pages import page
from nodewise.report.pages._scaling import extremes
from nodewise.report.tables import (
    BATCH,
    EXAMPLES,
    FLAGS,
    KIND,
    LAUNCHES,
    NODES,
    SPEEDUP,
    STEP_TIME,
    Column,
    Row,
    table,
)
from nodewise.results.columns import PARTS
from nodewise.results.curve_points import curve_keys
from nodewise.strategies import STRATEGIES

_SECTION = ["experiment", "dataset", "cluster", "strategy"]
_POINTS = [
    BATCH,
    NODES,
    STEP_TIME,
    SPEEDUP,
    EXAMPLES,
    *(Column(f"{part}_s", part.capitalize(), "s", kind_from="label") for part in PARTS),
    LAUNCHES,
    KIND,
    FLAGS,
]
_AS = {"published": "As published", "imported": "As imported"}


@page("curves")
def pages(study: ReportContext) -> Iterator[Page]:
    """Yield a page for each model and strategy that was measured, by us or by others.

    Each section of a page is about one experiment on one dataset and one kind of nodes. Its charts
    are those that no other page has.
    """
    curves = fitted_curves(study)
    of_others: dict[str, list[dict[str, Any]]] = {}
    for key, one in curves.items():
        if one["source"] in _AS:
            of_others.setdefault(one["page"], []).append(_of_others(key, one))
    for path, cells in study.cells.groupby("page"):
        first = cells.iloc[0]
        strategy = str(first["trained_with"])
        title = f"{study.model_title(first['model'])}, {STRATEGIES[strategy].short_title}"
        measured = sorted((one for _, one in cells.groupby(_SECTION)), key=len, reverse=True)
        sections = [_section(study, curves, one) for one in measured]
        counts = Counter(one["title"] for one in sections)
        for one in sections:
            one["title"] += f" · {one['nodes']}" if counts[one["title"]] > 1 else ""
        sections += of_others.pop(str(path), [])
        context = {
            "ends": extremes(study.with_titles(_of_page(study, study.compared, path))),
            "one_node": _on_one_node(study, path),
            "sections": sections,
            "strategy_page": strategy_page(strategy),
            "strategy": STRATEGIES[strategy],
            "results": results_page(first["model"], first["dataset"]),
        }
        charts = any(one["figures"] for one in sections)
        yield Page(str(path), "curve.md.j2", title, context, charts)
    for path, sections in of_others.items():
        title = f"{study.model_title(sections[0]['model'])}, {sections[0]['source']}"
        context = {"ends": [], "one_node": None, "sections": sections}
        context |= {"strategy_page": None, "results": None}
        yield Page(path, "curve.md.j2", title, context, figures=True)


def _of_page(study: ReportContext, points: pd.DataFrame, path: object) -> pd.DataFrame:
    return points[points["cell_id"].map(study.curve_pages) == path]


def _on_one_node(study: ReportContext, path: object) -> Row | None:
    """Return the point on one node with the highest throughput that counts as evidence."""
    points = _of_page(study, evidence.select(study.points.query("nodes == 1")), path)
    return points.nlargest(1, "examples_per_s").iloc[0].to_dict() if len(points) else None


def _section(study: ReportContext, curves: dict[str, Any], cells: pd.DataFrame) -> dict[str, Any]:
    """Return the template variables of the cells of one section."""
    first = cells.iloc[0]
    record, name = study.records[first["cell_id"]], first["strategy"]
    nodes = record.cell.cluster
    alike = [*_SECTION, "model"]
    points = study.points[(study.points[alike] == first[alike]).all(axis=1)]
    points = points.sort_values(["batch_per_worker", "nodes"])
    keys = [key for key in dict.fromkeys(curve_keys(points)) if key in curves]
    title = study.experiment_title(first["experiment"])
    return {
        "title": title if name in STRATEGIES else f"{title}: {study.strategy_title(name)}",
        "anchor": slug(" ".join(first[_SECTION])),
        "nodes": "processes of one machine" if nodes.kind == "local" else nodes.label,
        "machine": ", ".join(sorted(set(cells["machine"]))),
        "dataset": study.dataset_title(first["dataset"]),
        "kinds": [badge(kind) for kind in dict.fromkeys(points["label"])],
        "points": table(points, _POINTS) if len(points) else None,
        "figures": [one for key in keys for one in study.pick("fit", curve=key)],
        "fitted": [curves[key] for key in keys],
        "lost": [_lost(study, row) for row in cells[cells["status"] != "ok"].to_dict("records")],
        "launches": len(cells),
        "records": {name: first[name] for name in ("experiment", "model", "strategy")},
        "command": record.provenance.command,
        "config": study.experiment_file(first["experiment"]),
    }


def _of_others(key: str, curve: dict[str, Any]) -> dict[str, Any]:
    """Return the template variables of a published or an imported curve."""
    source = curve["source"]
    label = curve["label"].removesuffix(f" · {source}")
    return dict.fromkeys(["points", "records", "nodes"]) | {
        "model": curve["model"],
        "source": source,
        "title": f"{_AS[source]}: {label}",
        "anchor": slug(f"{source} {key}"),
        "kinds": [badge(source)],
        "figures": curve["figures"],
        "fitted": [curve],
        "lost": [],
    }


def _lost(study: ReportContext, row: Row) -> dict[str, Any]:
    """Describe a launch without a result: its reason and the last lines of its log."""
    failure = study.records[row["cell_id"]].failure
    point = f"batch {row['batch_per_worker']}, {counted(row['nodes'], 'node')}"
    return {
        "status": row["status"],
        "where": f"{point}, launch {row['repeat']}",
        "reason": row["reason"],
        "rank": failure.rank if failure else None,
        "log_tail": failure.log_tail if failure else [],
    }

"""Make a page for each model and strategy, with all its points, launches and records."""

from collections.abc import Iterator
from typing import Any

import pandas as pd
from markupsafe import Markup

from nodewise.core.cell import Cell
from nodewise.core.units import counted, write_number
from nodewise.report.addresses import strategy_page
from nodewise.report.context import ReportContext
from nodewise.report.fitted_curves import Curves, disambiguate, fitted_curve
from nodewise.report.html import badge, slug
from nodewise.report.page import Page
from nodewise.report.pages import page
from nodewise.report.tables import (
    BATCH,
    BYTES_SENT,
    EFFICIENCY,
    EXAMPLES,
    FLAGS,
    KIND,
    LAUNCH,
    LAUNCHES,
    NODES,
    SPEEDUP,
    STEP_TIME,
    Column,
    Row,
    Table,
    table,
)
from nodewise.results.curve_points import curve_keys
from nodewise.results.queries import with_labels
from nodewise.results.record import Record

Facts = list[tuple[str, object]]

_SECTION = ["experiment", "dataset", "cluster"]
_PARTS = {
    "input_s": "Waiting for examples",
    "compute_s": "Computing",
    "wait_s": "Waiting for workers",
    "communicate_s": "Communicating",
    "apply_s": "Updating",
}
_POINTS = [
    BATCH,
    NODES,
    LAUNCHES,
    STEP_TIME,
    EXAMPLES,
    SPEEDUP,
    EFFICIENCY,
    *(Column(name, title, "s", kind_from="label") for name, title in _PARTS.items()),
    BYTES_SENT,
    KIND,
    FLAGS,
]
_AS = {"published": "As published", "imported": "As imported"}
_RECORDS = [
    BATCH,
    NODES,
    LAUNCH,
    Column("step_time_s", "Step time", "s", kind_from="label"),
    Column("test_accuracy", "Test accuracy", "accuracy", kind_from="accuracy_label"),
    Column("energy_j", "Energy of the timed steps", "J", kind_from="energy_kind"),
    KIND,
    Column("accuracy_label", "Kind of accuracy"),
    Column("energy_kind", "Kind of energy"),
    Column("started", "Started"),
    FLAGS,
    Column("record", "Record"),
]
_OF_ACCURACY = ("test_accuracy", "accuracy_label")


@page("curves")
def pages(study: ReportContext) -> Iterator[Page]:
    """Yield a page for each model and strategy that was measured, by us or by others.

    Each section of a page is about one experiment on one dataset and one kind of nodes.
    """
    curves = Curves(study)
    of_others = _of_others(curves)
    for path, cells in study.cells.groupby("page"):
        first = cells.iloc[0]
        title = f"{study.model_title(first['model'])}, {study.strategy_title(first['strategy'])}"
        known = sorted((rows for _, rows in cells.groupby(_SECTION)), key=len, reverse=True)
        sections = [_section(curves, str(path), rows) for rows in known]
        for more in ("machine", "nodes"):
            titles = {one["anchor"]: one["title"] for one in sections}
            titles = disambiguate(titles, {one["anchor"]: one[more] for one in sections})
            sections = [one | {"title": titles[one["anchor"]]} for one in sections]
        sections += of_others.pop(str(path), [])
        yield _page(study, str(path), title, first, sections)
    for path, sections in of_others.items():
        model, source = sections[0]["model"], sections[0]["source"]
        yield _page(study, path, f"{study.model_title(model)}, {source}", None, sections)


def _page(
    study: ReportContext,
    path: str,
    title: str,
    first: "pd.Series[Any] | None",
    sections: list[dict[str, Any]],
) -> Page:
    context: dict[str, Any] = {"sections": sections, "strategy_page": None, "results": None}
    if first is not None:
        trained = study.records[first["cell_id"]].cell.strategy
        context["strategy_page"] = strategy_page(trained)
        context["results"] = study.results_pages[first["model"], first["dataset"]]
    return Page(path, "curve.md.j2", title, context, figures=True)


def _section(curves: Curves, path: str, cells: pd.DataFrame) -> dict[str, Any]:
    study, first = curves.study, cells.iloc[0]
    points = with_labels(study.tables["curves"])
    alike = [*_SECTION, "model", "strategy"]
    points = points[(points[alike] == first[alike]).all(axis=1)]
    keys = dict.fromkeys(curve_keys(points)) if len(points) else {}
    fitted = [fitted_curve(curves, key) for key in keys if key in curves.labels]
    record = study.records[first["cell_id"]]
    title = study.experiment_title(first["experiment"])
    of = {"experiment": first["experiment"], "model": first["model"], "line": first["strategy"]}
    return {
        "title": title,
        "anchor": slug(f"{first['experiment']} {first['dataset']} {first['cluster']}"),
        "nodes": _nodes(record.cell),
        "machine": ", ".join(sorted(set(study.processors(cells)))),
        "dataset": study.dataset_title(first["dataset"]),
        "kinds": [badge(kind) for kind in dict.fromkeys(points["label"])],
        "points": table(points.sort_values(["batch_per_worker", "nodes"]), _POINTS)
        if len(points)
        else None,
        "figures": study.pick("split", **of),
        "fitted": fitted,
        "lost": [_lost(study, row) for row in cells[cells["status"] != "ok"].to_dict("records")],
        "records": _records(cells, path),
        "command": record.provenance.command,
        "origin": _origin(study, record),
    }


def _of_others(curves: Curves) -> dict[str, list[dict[str, Any]]]:
    """Return the sections of published and imported curves, by the address of their page."""
    predictions = curves.study.overhead["predictions"]
    predictions = predictions[predictions["source"].isin(_AS)].drop_duplicates("curve")
    found: dict[str, list[dict[str, Any]]] = {}
    for row in predictions.to_dict("records"):
        one, of_source = fitted_curve(curves, row["curve"]), f" · {row['source']}"
        section = dict.fromkeys(["points", "records", "command", "nodes", "dataset", "machine"]) | {
            "model": row["model"],
            "source": row["source"],
            "title": f"{_AS[row['source']]}: {one['label'].removesuffix(of_source)}",
            "anchor": slug(f"{row['source']} {row['curve']}"),
            "kinds": [badge(row["source"])],
            "figures": [],
            "fitted": [one],
            "lost": [],
            "origin": [],
        }
        found.setdefault(one["page"], []).append(section)
    return found


def _nodes(cell: Cell) -> str:
    return "processes of one machine" if cell.cluster.kind == "local" else cell.cluster.label


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


def _records(cells: pd.DataFrame, path: str) -> Table:
    up = "../" * path.count("/")
    link = Markup('<a href="{}" download>JSON</a>')
    rows = cells.sort_values(["batch_per_worker", "nodes", "repeat"])
    rows = rows.assign(
        energy_kind=rows["energy_kind"].where(rows["energy_kind"] != ""),
        started=rows["started_at"].dt.strftime("%Y-%m-%d %H:%M"),
        record=[link.format(up + record) for record in rows["record"]],
    )
    no_accuracy = rows["test_accuracy"].isna().all()
    columns = [one for one in _RECORDS if not (no_accuracy and one.name in _OF_ACCURACY)]
    return table(rows, columns)


def _input(cell: Cell) -> str:
    if not cell.preprocessing_nodes:
        return cell.input
    return f"{cell.input}, {counted(cell.preprocessing_nodes, 'preprocessing node')}"


def _origin(study: ReportContext, record: Record) -> Facts:
    """Return the facts about where measurements come from: examples, machine, versions, commit."""
    made, data = record.provenance, record.data
    facts: Facts = []
    if data is not None:
        note = f"; {data.note}" if data.note else ""
        facts += [
            ("Examples", f"{study.dataset_title(data.dataset)}, {data.origin}{note}"),
            ("Training and test examples", f"{data.train_examples:,} and {data.test_examples:,}"),
            ("SHA-256 of the examples", data.sha256),
        ]
    if record.weights is not None:
        facts.append(("Starts from", f"{record.weights.name}, {record.weights.origin}"))
    dirty = " and changes that were not committed" if made.dirty else ""
    facts += [
        ("Commit", f"{made.commit}{dirty}" if made.commit else "unknown"),
        ("Processor", f"{made.cpu}, {made.cores} cores"),
        ("Memory", write_number(made.memory_bytes, "B")),
        ("Kernel", made.kernel),
        ("Network", made.network),
        ("CPU per node", made.cpu_limit),
        ("Input", _input(record.cell)),
        ("Versions", ", ".join(f"{name} {made.versions[name]}" for name in sorted(made.versions))),
        ("Seed", record.cell.seed),
    ]
    return facts

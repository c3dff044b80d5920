"""Cells: the list of all of them, and one page for each."""

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from nodewise.core.cell import Cell
from nodewise.core.units import counted, kind_label, write_number
from nodewise.report.context import ReportContext
from nodewise.report.html import Column, Row, Table, number, table
from nodewise.report.page import Page
from nodewise.report.pages import page
from nodewise.report.pages.strategies import page_of
from nodewise.report.strategy_words import trained_by
from nodewise.results.columns import PARTS
from nodewise.results.record import Conditions, Measurement, Record

Facts = list[tuple[str, object]]

_FILTERS = {
    "experiment": "Experiment",
    "model": "Model",
    "strategy": "Strategy",
    "batch": "Batch",
    "nodes": "Nodes",
    "status": "Status",
    "label": "Kind",
}
_LAUNCHES_OF = itemgetter("experiment", "model", "strategy", "batch_per_worker", "nodes")
_OF_WORKERS = {
    *("rank", "shard_examples", "elapsed_s", "cpu_s"),
    *("bytes_sent", "bytes_received", "bytes_retransmitted"),
}
_PLOT_LEFT, _PLOT_RIGHT, _PLOT_TOP, _PLOT_BOTTOM = 56.0, 712.0, 10.0, 120.0


@page("cells")
def pages(study: ReportContext) -> Iterator[Page]:
    """Yield the list of cells, and the page of each."""
    listed = [
        row
        | {"batch": row["batch_per_worker"]}
        | {"step_time": number(row["step_time_s"], "s", row["label"])}
        for row in study.cells.to_dict("records")
    ]
    context = {"cells": listed, "filters": list(_FILTERS.items())}
    yield Page("cells/index.html", "cells/index.md.j2", "Cells", context, contents=False)
    for row, others in _launches(study):
        yield _page(study, row, others)


def _launches(study: ReportContext) -> Iterator[tuple[Row, list[Row]]]:
    """Yield the row of each cell, with those of the other launches of the same point."""
    cells = study.cells.to_dict("records")
    for _, of_point in groupby(sorted(cells, key=_LAUNCHES_OF), key=_LAUNCHES_OF):
        rows = list(of_point)
        for row in rows:
            yield row, [other for other in rows if other["cell_id"] != row["cell_id"]]


def _page(study: ReportContext, row: Row, others: list[Row]) -> Page:
    """Return the page of a cell, which names the other launches of the same point."""
    record = study.records[row["cell_id"]]
    plural = "s" if row["nodes"] > 1 else ""
    title = (
        f"{study.model_title(row['model'])}, {trained_by(record.cell)}, "
        f"batch {row['batch_per_worker']}, {row['nodes']} node{plural}, launch {row['repeat']}"
    )
    context = {
        "status": row["status"],
        "kind": row["label"],
        "strategy": row["strategy"],
        "strategy_page": page_of(record.cell.strategy),
        "experiment": row["experiment"],
        "launches": others,
        "failure": record.failure,
        "command": record.provenance.command,
        "origin": _origin(study, record),
        "record": f"cells/{row['cell_id']}.json",
        "result": None,
    }
    if record.result is not None:
        context |= _measured(study, row, record.result)
    return Page(row["page"], "cells/cell.md.j2", title, context, contents=False)


def _measured(study: ReportContext, row: Row, result: Measurement) -> dict[str, Any]:
    """Return the results: in the node's own time, workers and start-up in that of the clock."""
    label, start = row["label"], result.start_up
    clock = kind_label("measured", row["data_origin"])
    of_epoch = kind_label(row["kind"], row["data_origin"], projected=not result.whole_epochs)
    tested = number(row["test_accuracy"], "accuracy", row["accuracy_label"])

    def measured(name: str, unit: str) -> Markup:
        return number(row[name], unit, label)

    facts: Facts = [
        ("Step time", measured("step_time_s", "s")),
        ("Examples per second", measured("examples_per_s", "/s")),
        ("Time of an epoch", number(row["epoch_time_s"], "s", of_epoch)),
        ("Timed training", measured("train_time_s", "s")),
        ("Timed steps", f"{result.steps:,}"),
        ("Test accuracy", tested if result.test else "not evaluated"),
        ("Wait for examples, per step", measured("input_s", "s")),
        ("Sent per step and worker", measured("bytes_sent_per_step", "B")),
        ("Energy of the timed steps", number(row["energy_j"], "J", row["energy_kind"])),
    ]
    return {
        "result": facts,
        "caution": row["flags"],
        "conditions": _conditions(result.conditions, clock),
        "discarded": [block.outside for block in result.discarded],
        "nodes": _nodes(result.conditions, clock),
        "steps": _plot(row, study.step_times[row["cell_id"]]),
        "split": _split(row, result),
        "whole_epochs": result.whole_epochs,
        "epochs": table(study.epochs[row["cell_id"]], _epochs(label, row["accuracy_label"])),
        "workers": table(
            [worker.model_dump(include=_OF_WORKERS) for worker in result.workers],
            _workers(clock),
        ),
        "start_up": [
            ("Libraries imported after", number(start.imported_s, "s", clock)),
            ("Workers ready after", number(start.workers_ready_s, "s", clock)),
            ("First timed step done after", number(start.first_timed_step_s, "s", clock)),
        ],
    }


def _conditions(seen: Conditions, clock: str) -> Facts:
    """Return what the machine did while the block was timed."""
    return [
        ("Wall time of the timed and split steps", number(seen.window_s, "s", clock)),
        ("Reference step before", number(seen.reference_before_us / 1e6, "s", clock)),
        ("Reference step after", number(seen.reference_after_us / 1e6, "s", clock)),
        ("CPU time of other processes", number(seen.foreign_cpu_s, "s", clock)),
        ("CPU time taken by the hypervisor (steal time)", number(seen.stolen_s, "s", clock)),
    ]


def _nodes(seen: Conditions, clock: str) -> Table | None:
    """Return what each emulated node used, or None where none is emulated."""
    if not seen.nodes:
        return None
    rows = [
        node.model_dump()
        | {
            "rank": rank,
            "share": node.cpu_s / seen.window_s,
            "throttled": node.throttled_periods / node.periods if node.periods else None,
        }
        for rank, node in enumerate(seen.nodes)
    ]
    columns = [
        Column("rank", "Rank"),
        Column("share", "Share of a core used", "share", clock),
        Column("throttled", "CPU quota periods throttled", "share", clock),
        Column("sent_bytes", "Sent on the link", "B", clock),
        Column("received_bytes", "Received", "B", clock),
        Column("dropped_packets", "Packets dropped", "", clock),
    ]
    return table(rows, columns)


def _epochs(label: str, accuracy_label: str) -> list[Column]:
    return [
        Column("epoch", "Epoch"),
        Column("steps", "Steps"),
        Column("seconds", "Time", "s", label),
        Column("loss", "Training loss", "accuracy", accuracy_label),
        Column("accuracy", "Training accuracy", "accuracy", accuracy_label),
    ]


def _workers(label: str) -> list[Column]:
    return [
        Column("rank", "Rank"),
        Column("shard_examples", "Examples in its shard"),
        Column("elapsed_s", "Wall time", "s", label),
        Column("cpu_s", "CPU time", "s", label),
        Column("bytes_sent", "Sent", "B", label),
        Column("bytes_received", "Received", "B", label),
        Column("bytes_retransmitted", "Retransmitted", "B", label),
    ]


def _plot(row: Row, steps: pd.Series) -> dict[str, Any]:
    """Return what the drawing of every step needs, in its units (see `cells/cell.html.j2`).

    Of more steps than fit side by side, the shortest and the longest of each place are drawn.
    """
    top = float(steps.max()) or 1.0
    across = (_PLOT_RIGHT - _PLOT_LEFT) / max(1, len(steps) - 1)
    together = max(1, round(1 / across)) if len(steps) > 2 * (_PLOT_RIGHT - _PLOT_LEFT) else 1

    def height(seconds: float) -> float:
        return round(_PLOT_BOTTOM - seconds / top * (_PLOT_BOTTOM - _PLOT_TOP), 1)

    seconds = steps.to_numpy(float)
    drawn = [*range(len(seconds))] if together == 1 else _ends(seconds, together)
    heights = (_PLOT_BOTTOM - seconds / top * (_PLOT_BOTTOM - _PLOT_TOP)).round(1).tolist()
    points = [f"{_PLOT_LEFT + i * across:.1f},{heights[i]}" for i in drawn]
    low, high = height(row["step_time_p10_s"]), height(row["step_time_p90_s"])
    median = write_number(row["step_time_median_s"], "s")
    return {
        "points": Markup(" ".join(points)),  # noqa: S704 (numbers)
        "band_y": high,
        "band_height": round(low - high, 1),
        "median_y": height(row["step_time_median_s"]),
        "median": median,
        "top": write_number(top, "s") if height(row["step_time_median_s"]) > 26 else "",
        "count": len(steps),
        "words": (
            f"Time of each of {len(steps)} steps, {row['label']}. Median {median}, 10th to 90th "
            f"percentile {write_number(row['step_time_p10_s'], 's')} to "
            f"{write_number(row['step_time_p90_s'], 's')}, longest {write_number(top, 's')}."
        ),
    }


def _ends(seconds: np.ndarray, together: int) -> list[int]:
    """Return where the least and the greatest are of each so many steps `together`."""
    drawn: list[int] = []
    for first in range(0, len(seconds), together):
        place = seconds[first : first + together]
        drawn += sorted({first + int(place.argmin()), first + int(place.argmax())})
    return drawn


def _split(row: Row, result: Measurement) -> dict[str, Any] | None:
    split = result.workers[0].split
    if split is None:
        return None
    times = {part: float(row[f"{part}_s"]) for part in PARTS}
    written = ", ".join(f"{part} {write_number(times[part], 's')}" for part in PARTS)
    return {
        "steps": len(split.compute_us),
        "middle": "Mean" if row["exchange"] == "averaging" else "Median",  # see tables
        "words": f"Parts of a step, {row['label']}: {written}.",
        "parts": [
            {
                "name": part,
                "share": round(seconds / (sum(times.values()) or 1), 4),
                "time": number(seconds, "s", row["label"]),
            }
            for part, seconds in times.items()
        ],
    }


def _input(cell: Cell) -> str:
    if not cell.preprocessing_nodes:
        return cell.input
    return f"{cell.input}, {counted(cell.preprocessing_nodes, 'preprocessing node')}"


def _origin(study: ReportContext, record: Record) -> Facts:
    """Return where the measurement comes from: examples, machine, versions, commit."""
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
    cluster = record.cell.cluster
    if cluster.kind != "local":
        facts.append(("A node", cluster.label))
    dirty = " and changes that were not committed" if made.dirty else ""
    facts += [
        ("Commit", f"{made.commit}{dirty}" if made.commit else "unknown"),
        ("SHA-256 of the configuration", made.config_sha256 or "unknown"),
        ("SHA-256 of the lock file", made.lock_sha256 or "unknown"),
        ("Processor", f"{made.cpu}, {made.cores} cores"),
        ("Memory", write_number(made.memory_bytes, "B")),
        ("Kernel", made.kernel),
        ("Network", made.network),
        ("CPU per node", made.cpu_limit),
        ("Input", _input(record.cell)),
        ("Versions", ", ".join(f"{name} {made.versions[name]}" for name in sorted(made.versions))),
        ("Started", f"{record.started_at:%Y-%m-%d %H:%M:%S %Z}"),
        ("Time limit", write_number(record.cell.time_limit_s, "s")),
        ("Seed", record.cell.seed),
    ]
    return facts

"""Make the page of the method, which says how everything was measured, and the data page."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from nodewise.core.intervals import DEVIATIONS, INTERVAL
from nodewise.core.schema import read_tree
from nodewise.core.units import GENERATED, KINDS, PROJECTED, base_kind, write_percent
from nodewise.predict import cluster_links
from nodewise.report import evidence
from nodewise.report.context import CHANGES, ReportContext
from nodewise.report.figures.peers import FILE as PEERS
from nodewise.report.html import number, slug
from nodewise.report.page import Page
from nodewise.report.pages import page
from nodewise.report.tables import MACHINE, Column, table
from nodewise.results import published, queries, quiet_thresholds
from nodewise.results.columns import CURVE_KEY, explain_table
from nodewise.results.manifest import Manifest
from nodewise.results.model_description import Architecture

# since then, workers keep freed memory: see KEEP_MEMORY in nodewise.measure.environment
_MEMORY_KEPT = pd.Timestamp("2026-11-22T16:00Z")

# Since then, convolutions always use oneDNN. Before, they did only where TensorFlow chose so by
# itself, which it did not on the processor below.
_ONEDNN = pd.Timestamp("2026-11-22T23:00Z")
_WITHOUT_ONEDNN = "AMD EPYC"

_MACHINES = [Column("cpu", "Processor"), Column("cores", "Cores"), Column("cells", "Cells")]
_RUNS = [
    Column("study", "Study"),
    MACHINE,
    Column("dates", "Measured"),
    Column("points", "Points"),
    Column("launches", "Launches"),
    Column("left_out", "Left out"),
]
_ENOUGH_POINTS = 20
_CONSTANTS = [
    Column("name", "Constant", wide=True),
    Column("typical", "Typical", "share", kind="fitted"),
    Column("low", "5 % of clusters below", "share", kind="fitted"),
    Column("high", "5 % above", "share", kind="fitted"),
]
_JUDGED = [
    Column("link", "Slowest link"),
    Column("points", "Points"),
    Column("publishers", "Publishers"),
    Column("median", "Median error", "share", kind="error"),
    Column("p90", "90 % of errors below", "share", kind="error"),
    Column("perfect_median", "Median error of perfect scaling", "share", kind="error"),
    Column("covered", "90 % intervals hold", "share", kind="error"),
    Column("width", "Half width", "share", kind="error"),
]
_CONSTANT_NAMES = {
    "nvlink": "share of NVLink achieved",
    "bridge": "share of NVLink bridges achieved",
    "pcie": "share of PCIe achieved",
    "no_p2p": "share of PCIe achieved without peer-to-peer",
    "rdma": "share of RDMA achieved, one card",
    "rails": "share of RDMA achieved, more than 400 Gbit/s a node",
    "all_reduces": "share of measured bandwidths achieved in training",
    "devices_differ": "added per doubling of devices in a node (u)",
    "nodes_differ": "added per doubling of nodes (v)",
    "hidden": "share hidden behind computing (h)",
    "batch_fixed": "share of computing that does not depend on the batch (f)",
}
_LOGITS = {"hidden", "batch_fixed"}


@page("about")
def pages(study: ReportContext) -> Iterator[Page]:
    """Yield the page of the method, which links to all pages about the site, and the data page."""
    method = {
        "peers": PEERS.is_file(),
        "evidence": evidence,
        "interval": round(100 * INTERVAL),
        "kinds": list(KINDS.items()),
        "projected": f"measured {PROJECTED}",
        "generated": f"measured, {GENERATED}",
        "machines": table(_machines(study), _MACHINES),
        "runs": table(_runs(study.manifests), _RUNS) if study.manifests else None,
        "cell_kinds": {base_kind(kind).removesuffix(" soft") for kind in study.cells["kind"]},
        "thresholds": [
            sentence.format(f"more than {write_percent(most)}")
            for sentence, most in quiet_thresholds.THRESHOLDS.items()
        ],
        "blocks": quiet_thresholds.MAX_BLOCKS,
        "flagged": int((study.cells["flags"] != "").sum()),
        "cells": len(study.cells),
        "spread": _spread_of_launches(study),
        "oversubscribed": int(study.cells["oversubscribed"].sum()),
        "not_keeping": int((study.cells["started_at"] < _MEMORY_KEPT).sum()),
        "without_onednn": _without_onednn(study),
        "forecast_constants": table(_forecast_constants(), _CONSTANTS),
        "tcp": [
            number(1e9 * rate, "B/s", "fitted")
            for rate in _range(*cluster_links.constants()["clusters"]["tcp"]).values()
        ],
        "latencies": [
            number(_range(*cluster_links.constants()["clusters"][name])["typical"], "s", "fitted")
            for name in ("latency_within", "latency_between")
        ],
        "forecasts_judged": table(_forecasts_judged(), _JUDGED),
    }
    yield Page("method.html", "method.md.j2", "Method and data", method)
    cells = study.tables["cells"]
    data = {
        "tables": _tables(study),
        "datasets": [
            study.datasets[name] for name in sorted(set(cells["dataset"]) & set(study.datasets))
        ],
        "others": [
            {"file": name, "what": what}
            for name, (there, what) in {
                CHANGES: (not study.changes.empty, "what changed between two runs"),
                PEERS.name: (PEERS.is_file(), "launches against Horovod and PyTorch"),
            }.items()
            if there
        ],
        "citation": read_tree(Path("CITATION.cff")),
        "commits": sorted(set(cells["commit"]) - {""}),
    }
    yield Page("data.html", "data.md.j2", "Data", data)


def _forecast_constants() -> pd.DataFrame:
    """Return the constants of clusters: the typical value and the range of 90 % of clusters."""
    known = cluster_links.constants()["clusters"]
    rows: list[dict[str, Any]] = []
    for name, title in _CONSTANT_NAMES.items():
        ends = _range(*known[name])
        if name in _LOGITS:
            ends = {end: 1 / (1 + 1 / value) for end, value in ends.items()}
        # no link is faster than its nominal rate
        rows.append({"name": title} | {end: min(value, 1.0) for end, value in ends.items()})
    return pd.DataFrame(rows)


def _range(mean: float, deviation: float) -> dict[str, float]:
    ends = {"typical": 0.0, "low": -DEVIATIONS, "high": DEVIATIONS}
    return {end: math.exp(mean + factor * deviation) for end, factor in ends.items()}


def _forecasts_judged() -> pd.DataFrame:
    """Return how far forecasts of left-out publishers were off, for links with enough points."""
    rows = published.read("forecast/judged")
    return rows[rows["points"] >= _ENOUGH_POINTS]


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


def _without_onednn(study: ReportContext) -> int:
    """Return how many cells of models with convolutions were measured without oneDNN."""
    early = study.cells[study.cells["started_at"] < _ONEDNN]
    dense = [name for name, of in study.architectures.items() if not _convolves(of)]
    asked = early.loc[~early["model"].isin(dense), "cell_id"]
    return sum(study.records[cell].provenance.cpu == _WITHOUT_ONEDNN for cell in asked)


def _convolves(architecture: Architecture) -> bool:
    return any("Conv" in layer.kind for layer in architecture.layers)


def _spread_of_launches(study: ReportContext) -> dict[str, Any] | None:
    """Return the ratio of the slowest to the fastest launch of a point: median and largest.

    None is returned if no point has several launches.
    """
    cells = study.cells[study.cells["step_time_s"] > 0]
    times = cells.groupby(CURVE_KEY)["step_time_s"]
    ratios = (times.max() / times.min())[times.size() > 1]
    if ratios.empty:
        return None
    kind = str(cells["kind"].mode().iloc[0])
    return {
        "points": len(ratios),
        "median": number(ratios.median(), "×", kind),
        "most": number(ratios.max(), "×", kind),
    }


def _machines(study: ReportContext) -> pd.DataFrame:
    """Return one row per machine that measured cells."""
    made = [(one.provenance.cpu, one.provenance.cores) for one in study.records.values()]
    machines = pd.DataFrame(made, columns=["cpu", "cores"])
    return machines.groupby(["cpu", "cores"]).size().reset_index(name="cells")


def _runs(manifests: Sequence[Manifest]) -> pd.DataFrame:
    """Return one row per folder of published records, from its manifest."""
    return pd.DataFrame(
        {
            "study": one.study,
            "machine": one.machine,
            "dates": " to ".join(
                dict.fromkeys(
                    str(time.date()) for time in (one.first_started_at, one.last_finished_at)
                )
            ),
            "points": sum(of.points for of in one.experiments),
            "launches": sum(of.launches for of in one.experiments),
            "left_out": len(one.left_out),
        }
        for one in manifests
    )


def _tables(study: ReportContext) -> list[dict[str, Any]]:
    tables: queries.Tables = study.tables | study.overhead
    return [
        {
            "name": name,
            "anchor": slug(name),
            "row": _sentence(explain_table(name)[0]),
            "rows": f"{len(table):,}",
            "files": [f"{name}.csv", f"{name}.parquet"],
            "columns": [(column, explain_table(name)[1][str(column)]) for column in table],
        }
        for name, table in tables.items()
    ]

"""Make the pages about the site: method, data, records, glossary, how to read the charts."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from nodewise.core.intervals import DEVIATIONS, INTERVAL
from nodewise.core.schema import read_tree
from nodewise.core.units import GENERATED, KINDS, PROJECTED, base_kind, write_percent
from nodewise.predict import cluster_links
from nodewise.report import evidence
from nodewise.report.context import CHANGES_FILE, ReportContext
from nodewise.report.figures import FIGURES
from nodewise.report.figures.peers import FILE as PEERS
from nodewise.report.html import data, number, slug, titled
from nodewise.report.page import Page
from nodewise.report.pages import page
from nodewise.report.tables import Column, table
from nodewise.results import queries, quiet_thresholds
from nodewise.results.columns import explain_table

GLOSSARY = Path("site/glossary.yaml")
_MACHINES = [
    Column("cpu", "Processor"),
    Column("cores", "Cores"),
    Column("cells", "Cells"),
    Column("measured", "Measured"),
]
_CONSTANTS = [
    Column("name", "Constant", wide=True),
    Column("typical", "Typical", "share", kind="fitted"),
    Column("low", "5 % of clusters below", "share", kind="fitted"),
    Column("high", "5 % above", "share", kind="fitted"),
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
_FILTERS = ["experiment", "model", "strategy", "batch", "nodes", "status"]


@page("about")
def pages(study: ReportContext) -> Iterator[Page]:
    """Yield the pages. Anchors of terms and of figures are their `slug`."""
    known, cells = cluster_links.constants(), study.cells
    method = {
        "peers": PEERS.is_file(),
        "evidence": evidence,
        "interval": round(100 * INTERVAL),
        "kinds": list(KINDS.items()),
        "projected": PROJECTED,
        "generated": f"measured, {GENERATED}",
        "machines": table(machines(study), _MACHINES),
        "cell_kinds": {base_kind(kind).removesuffix(" soft") for kind in cells["kind"]},
        "thresholds": [
            sentence.format(f"more than {write_percent(most)}")
            for sentence, most in quiet_thresholds.THRESHOLDS.items()
        ],
        "blocks": quiet_thresholds.MAX_BLOCKS,
        "flagged": int((cells["flags"] != "").sum()),
        "cells": len(cells),
        "known": known,
        "forecast_constants": table(_forecast_constants(), _CONSTANTS),
        "tcp": [data(1e9 * rate, "B/s") for rate in _range(*known["clusters"]["tcp"]).values()],
        "latencies": [
            data(_range(*known["clusters"][name])["typical"], "s")
            for name in ("latency_within", "latency_between")
        ],
    }
    yield Page("method.html", "method.md.j2", "Method and data", method)
    others = {
        CHANGES_FILE: (not study.changes.empty, "what changed between two runs"),
        PEERS.name: (PEERS.is_file(), "launches against Horovod and PyTorch"),
    }
    tables: queries.Tables = study.tables | study.fit_tables
    tables_page = {
        "tables": [
            (name, *explain_table(name), f"{len(rows):,}", list(rows))
            for name, rows in tables.items()
        ],
        "datasets": [
            study.datasets[name] for name in sorted(set(cells["dataset"]) & set(study.datasets))
        ],
        "others": [(name, what) for name, (there, what) in others.items() if there],
        "citation": read_tree(Path("CITATION.cff")),
        "no_results": study.config.left_out,
        "commits": sorted(set(cells["commit"]) - {""}),
    }
    yield Page("data.html", "data.md.j2", "Data", tables_page)
    yield Page("records.html", "records.md.j2", "All records", _records(study), contents=False)
    terms = sorted(read_tree(GLOSSARY), key=lambda one: one["term"].lower())
    yield Page("glossary.html", "glossary.md.j2", "Glossary", {"terms": terms}, contents=False)
    shown = {"figures": [(slug(name), one.plots, one.reading) for name, one in FIGURES.items()]}
    yield Page("how-to-read.html", "how_to_read.md.j2", "How to read the charts", shown)


def _records(study: ReportContext) -> dict[str, Any]:
    """Return the list of all launches, and the columns by which readers can filter it."""
    words = {**study.words, "experiment": study.experiment_title}
    listed = [
        row
        | {"named": {name: titled(row[name], words[name](row[name])) for name in _FILTERS[:3]}}
        | {"step_time": number(row["step_time_s"], "s", row["label"])}
        for row in study.cells.rename(columns={"batch_per_worker": "batch"}).to_dict("records")
    ]
    return {"cells": listed, "filters": _FILTERS}


def _forecast_constants() -> pd.DataFrame:
    """Return the constants of clusters: the typical value and the range of 90 % of clusters."""
    known = cluster_links.constants()["clusters"]
    rows: list[dict[str, Any]] = []
    for name, title in _CONSTANT_NAMES.items():
        ends = _range(*known[name])
        if name in ("hidden", "batch_fixed"):  # logits
            ends = {end: 1 / (1 + 1 / value) for end, value in ends.items()}
        # no link is faster than its nominal rate
        rows.append({"name": title} | {end: min(value, 1.0) for end, value in ends.items()})
    return pd.DataFrame(rows)


def _range(mean: float, deviation: float) -> dict[str, float]:
    ends = {"typical": 0.0, "low": -DEVIATIONS, "high": DEVIATIONS}
    return {end: math.exp(mean + factor * deviation) for end, factor in ends.items()}


def machines(study: ReportContext) -> pd.DataFrame:
    """Return one row per machine that measured cells."""
    made = [
        (one.provenance.cpu, one.provenance.cores, f"{one.started_at:%Y-%m-%d}")
        for one in (study.records[cell] for cell in study.cells["cell_id"])
    ]
    days = pd.DataFrame(made, columns=["cpu", "cores", "day"]).groupby(["cpu", "cores"])["day"]
    rows = days.agg(cells="size", first="min", last="max").reset_index()
    measured = rows["first"] + " to " + rows["last"]
    return rows.assign(measured=measured.where(rows["first"] != rows["last"], rows["first"]))

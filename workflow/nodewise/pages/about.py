"""What the site is made of: how it was measured, and where the data are."""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from nodewise import __version__, gates, peers, views
from nodewise.intervals import INTERVAL
from nodewise.pages.markup import number
from nodewise.pages.study import Page, Study, slug
from nodewise.quantities import GENERATED, KINDS, PROJECTED, base_kind, write_number
from nodewise.tables import CURVE_KEY

_MEMORY_KEPT = pd.Timestamp("2026-11-22T16:00Z")  # by workers, since then: `runner._KEEP_MEMORY`

# and convolutions are oneDNN's since then: before, where TensorFlow takes them by itself only
_ONEDNN = pd.Timestamp("2026-11-22T23:00Z")
_WITHOUT_ONEDNN = "AMD EPYC"


def pages(study: Study) -> Iterator[Page]:
    """Yield the page that leads to the pages about the site, the method and the data page."""
    method = {
        "interval": round(100 * INTERVAL),
        "kinds": list(KINDS.items()),
        "projected": f"measured {PROJECTED}",
        "generated": f"measured, {GENERATED}",
        "machines": _machines(study),
        "cell_kinds": {base_kind(kind).removesuffix(" soft") for kind in study.cells["kind"]},
        "gates": gates.IN_WORDS,
        "blocks": gates.MAX_BLOCKS,
        "flagged": int((study.cells["flags"] != "").sum()),
        "cells": len(study.cells),
        "spread": _spread_of_launches(study),
        "oversubscribed": int(study.cells["oversubscribed"].sum()),
        "not_keeping": int((study.cells["started_at"] < _MEMORY_KEPT).sum()),
        "without_onednn": _without_onednn(study),
    }
    compared = {"peers": peers.FILE.is_file()}
    yield Page("about.html", "about.md.j2", "About", compared, contents=False)
    yield Page("method.html", "method.md.j2", "How this was measured", method)
    cells = study.tables["cells"]
    data = {
        "tables": _tables(study),
        "datasets": [
            study.datasets[name] for name in sorted(set(cells["dataset"]) & set(study.datasets))
        ],
        "version": __version__,
        "commits": sorted(set(cells["commit"]) - {""}),
    }
    yield Page("data.html", "data.md.j2", "Data", data)


def _without_onednn(study: Study) -> int:
    """Return how many cells were measured without oneDNN's convolutions."""
    early = study.cells.loc[study.cells["started_at"] < _ONEDNN, "cell_id"]
    return sum(study.records[cell].provenance.cpu == _WITHOUT_ONEDNN for cell in early)


def _spread_of_launches(study: Study) -> dict[str, Any] | None:
    """Return how much longer the slowest launch of a point took than its quickest."""
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


def _machines(study: Study) -> list[list[tuple[str, object]]]:
    """Return each machine that measured a cell, and how many cells it measured."""
    found: dict[tuple[tuple[str, object], ...], int] = {}
    for record in study.records.values():
        made = record.provenance
        machine = (
            ("Processor", made.cpu),
            ("Cores", made.cores),
            ("Memory", write_number(made.memory_bytes, "B")),
            ("Kernel", made.kernel),
            ("Network", made.network),
        )
        found[machine] = found.get(machine, 0) + 1
    return [[*machine, ("Cells", count)] for machine, count in found.items()]


def _tables(study: Study) -> list[dict[str, Any]]:
    tables: views.Tables = study.tables | study.overhead
    return [
        {
            "name": name,
            "anchor": slug(name),
            "row": study.columns[name]["row"],
            "rows": len(table),
            "files": [f"{name}.csv", *([f"{name}.parquet"] if name in study.tables else [])],
            "columns": [(column, study.columns[name]["columns"][column]) for column in table],
        }
        for name, table in tables.items()
    ]

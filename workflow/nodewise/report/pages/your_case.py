"""Your case: the formulas in the reader's browser, and which strategy fits what matters."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from nodewise.predict.fit_queries import coefficients_of, full_fit, with_trials
from nodewise.predict.forecast import LINKS
from nodewise.predict.law import LAWS
from nodewise.predict.parts_law import baselines
from nodewise.predict.published_bandwidth import LAW as BANDWIDTH
from nodewise.report.context import ReportContext
from nodewise.report.fitted_curves import Curves
from nodewise.report.page import Page
from nodewise.report.pages import _choosing, page
from nodewise.report.tables import BATCH, KIND, NODES, Column, table
from nodewise.results.queries import POINT, Tables

_EFFICIENT = 0.8
_STILL = 4  # curves of the table below the calculator
_SHOWN_NODES = (1, 2, 4, 8, 16, 32, 64)
_COLUMNS = [
    Column("curve", "Curve", wide=True),
    BATCH,
    NODES,
    Column("fitted_s", "Step time", "s", kind_from="label", low="low_s", high="high_s"),
    KIND,
]


@page("your_case")
def pages(study: ReportContext) -> Iterator[Page]:
    """Yield the page; without a fit it begins with made-up values, and says so."""
    labels = Curves(study).labels
    offered = presets(study.overhead, labels)
    rows = full_fit(with_trials(study.overhead))
    rows = rows[rows["curve"].isin([one["curve"] for one in offered[:_STILL]])]
    rows = rows[rows["nodes"].isin(_SHOWN_NODES)].dropna(subset="fitted_s")
    kinds = rows["beyond"].map({True: "predicted", False: "fitted"})
    context = {
        "efficient": f"{100 * _EFFICIENT:g}\u00a0%",
        "presets": offered,
        "links": [
            (link.title, f"{8e-6 * link.bytes_per_s:.4g}", f"{1e3 * link.latency_s:.4g}")
            for link in LINKS.values()
        ],
        "laws": [(name, law.title) for name, law in LAWS.items() if name not in baselines()],
        "still": table(rows.assign(label=kinds, curve=rows["curve"].map(labels)), _COLUMNS),
    }
    yield Page(_choosing.PAGE, "your_case.md.j2", "Your case", context | _choosing.context(study))


def presets(overhead: Tables, labels: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return one preset per curve, of most nodes and batches first, ready to be JSON.

    `curve` is its key, which addresses keep, `title` what readers call it. `deviations` has, by
    batch, how far computing it is off the straight line; `ends`, by batch and nodes, the intervals
    that `_ends` returns.
    """
    fits, predictions, ends = overhead["fits"], overhead["predictions"], _ends(overhead)
    known = fits[~fits["law"].isin([*baselines(), BANDWIDTH])]
    found = []
    for curve, rows in predictions[predictions["observed_s"].notna()].groupby("curve"):
        mine = coefficients_of(known, str(curve))
        if mine.empty:
            continue
        lines = mine[mine["batch_per_worker"].notna()]
        values = mine[mine["batch_per_worker"].isna()]
        first = mine.iloc[0]
        found.append(
            {
                "curve": curve,
                "title": labels[str(curve)],
                "law": first["law"],
                "settings": json.loads(first["settings"]),
                "values": dict(zip(values["parameter"], values["value"], strict=True)),
                "deviations": {
                    str(batch): value
                    for batch, value in zip(lines["batch_per_worker"], lines["value"], strict=True)
                },
                "ends": ends.get(str(curve), {}),
                "payload": float(rows["payload_bytes"].median()),
                "batches": sorted(int(batch) for batch in rows["batch_per_worker"].unique()),
                "nodes": sorted(int(n) for n in rows["nodes"].unique()),
            }
        )
    return sorted(found, key=lambda one: -len(one["nodes"]) * len(one["batches"]))


def _ends(overhead: Tables) -> dict[str, dict[int, dict[int, list[float]]]]:
    """Return the 90 % intervals of the fits to all points, by curve, batch and nodes.

    They are the ends of the step time in seconds, and those of the efficiency where it has some.
    """
    at = ["curve", *POINT]
    optima = overhead["optima"]
    efficiency = optima[optima["objective"] == "efficiency"].astype({"batch_per_worker": "int64"})
    efficiency = efficiency.drop_duplicates(at)[[*at, "low", "high"]]
    rows = full_fit(overhead["predictions"]).dropna(subset=["low_s", "high_s"])
    rows = rows.merge(efficiency, "left", at)[[*at, "low_s", "high_s", "low", "high"]]
    found: dict[str, dict[int, dict[int, list[float]]]] = {}
    for curve, batch, nodes, *ends in rows.itertuples(index=False, name=None):
        known = [float(f"{end:.3g}") for end in ends if not pd.isna(end)]
        found.setdefault(curve, {}).setdefault(int(batch), {})[int(nodes)] = known
    return found

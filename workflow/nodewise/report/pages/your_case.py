"""Make the page Your case: a calculator with the formulas, and which strategy fits which goal."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from nodewise.predict.cluster_links import between_nodes
from nodewise.predict.fit import Fit
from nodewise.predict.fit_queries import full_fit, with_trials
from nodewise.predict.law import LAWS
from nodewise.predict.parts_law import PartsLaw, baselines
from nodewise.predict.points import Floats, Points
from nodewise.report.context import ReportContext
from nodewise.report.fitted_curves import Curves
from nodewise.report.page import Page
from nodewise.report.pages import _choosing, page
from nodewise.report.tables import BATCH, KIND, NODES, Column, table
from nodewise.results.curves import Curve

LINKS = {"1gbit-tcp": 50e-6, "10gbit-tcp": 30e-6, "25gbit-tcp": 20e-6, "100gbit-rdma": 2e-6}
"""Links that the calculator offers, by name, and their usual latency in seconds."""
_EFFICIENT = 0.8
_DRAWS = 50  # draws of each curve; more would make the page too large
_MOST = 999  # draws are written with three digits
_STILL = 4  # curves in the table below the calculator
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
    """Yield the page; without any fit, it begins with made-up values and says so."""
    labels = Curves(study).labels
    offered = presets(study, labels)
    rows = full_fit(with_trials(study.overhead))
    rows = rows[rows["curve"].isin([one["curve"] for one in offered[:_STILL]])]
    rows = rows[rows["nodes"].isin(_SHOWN_NODES)].dropna(subset="fitted_s")
    kinds = rows["beyond"].map({True: "predicted", False: "fitted"})
    context = {
        "efficient": f"{100 * _EFFICIENT:g}\u00a0%",
        "presets": offered,
        "links": [
            (name, f"{8e-6 * max(between_nodes(name).values()):.4g}", f"{1e3 * latency_s:.4g}")
            for name, latency_s in LINKS.items()
        ],
        "laws": [(name, law.title) for name, law in LAWS.items() if name not in baselines()],
        "still": table(rows.assign(label=kinds, curve=rows["curve"].map(labels)), _COLUMNS),
    }
    yield Page(_choosing.PAGE, "your_case.md.j2", "Your case", context | _choosing.context(study))


def presets(study: ReportContext, labels: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return one preset of the calculator per curve, as values that JSON can represent.

    Curves with the most nodes and batches come first. Only laws that split a step into parts have
    presets. In a preset, `curve` is the key of the curve, which is part of the page's URL, and
    `title` its label. `values` are the coefficients of the curve and of its link, and `draws` as
    `_draws` returns them.
    """
    observed = study.overhead["predictions"].dropna(subset="observed_s")
    of_curve = {str(curve): rows for curve, rows in observed.groupby("curve")}
    fits = {curve.name: (study.fits.fit_by_curve[curve.name], curve) for curve in study.fits.curves}
    found: list[dict[str, Any]] = [
        {"title": labels[name], **_preset(*fits[name], rows)}
        for name, rows in of_curve.items()
        if name in fits and isinstance(fits[name][0].law, PartsLaw)
    ]
    return sorted(found, key=lambda one: -len(one["nodes"]) * len(one["batches"]))


def _preset(fitted: Fit, curve: Curve, rows: pd.DataFrame) -> dict[str, Any]:
    """Return the preset of a curve; `rows` are its observed rows of the table `predictions`."""
    batches = sorted(int(batch) for batch in rows["batch_per_worker"].unique())
    nodes = sorted(int(n) for n in rows["nodes"].unique())
    payload = float(rows["payload_bytes"].median())
    at = [nodes[-1]], batches[len(batches) // 2], payload
    begin = Points.of(*at, model=curve.name, link=curve.link)
    return {
        "curve": curve.name,
        "law": fitted.law.name,
        "settings": vars(fitted.law),
        "values": _coefficients(fitted, curve, lambda i: float(fitted.values[i])),
        "draws": _draws(fitted, curve, begin),
        "payload": payload,
        "batches": batches,
        "nodes": nodes,
    }


def _coefficients(fitted: Fit, curve: Curve, of: Callable[[int], Any]) -> dict[str, Any]:
    """Return what `of` returns for each coefficient of a curve and its link, by name.

    `of` takes the index of a coefficient in the fit.
    """
    labels = (curve.name, curve.link)
    return {name: of(i) for i, (name, label) in enumerate(fitted.coefficients) if label in labels}


def _draws(fitted: Fit, curve: Curve, begin: Points) -> dict[str, Any]:
    """Return up to `_DRAWS` of the equally likely draws of a curve's coefficients, by name.

    All draws are sorted by their step time at the calculator's first setting and then picked at
    even distances, so that the interval there is that of all draws.
    """
    order = np.argsort(fitted.draw(begin)[:, 0])
    evenly = np.linspace(0, len(order) - 1, min(_DRAWS, len(order)))
    chosen = order[evenly.round().astype(int)]
    return _coefficients(fitted, curve, lambda i: _counts(fitted.draws[chosen, i]))


def _counts(values: Floats) -> dict[str, Any]:
    """Return values with few digits, as whole multiples (`counts`) of a `unit`."""
    unit = float(f"{np.abs(values).max() / _MOST:.4g}") or 1.0
    return {"unit": unit, "counts": np.round(values / unit).astype(int).tolist()}

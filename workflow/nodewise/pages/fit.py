"""How many nodes? The formulas against the points, their coefficients and their errors."""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from nodewise.pages.markup import Column, table
from nodewise.pages.study import Page, Study, slug
from nodewise.views import CURVE, break_even, held_out

_TITLES = {
    "emulated": "Our emulated clusters",
    "emulated soft": "Our emulated clusters, shares held softly",
    "measured": "Our processes on this machine",
    "published": "The published table",
}
_WHAT = [Column("model", "Model"), Column("experiment", "Experiment")]
_BREAK_EVEN = [
    *_WHAT,
    Column("batch_per_worker", "Batch per worker"),
    Column("pays_from", "Pays from nodes", "", "fitted"),
    Column("best", "Fastest at nodes", "", "fitted"),
    Column("speedup", "Speed-up there", "×", "fitted"),
    Column("reach", "Asked up to nodes"),
]
_COEFFICIENTS = {
    "compute_fixed_s": ("Computing, a step: c₀", "s"),
    "compute_per_example_s": ("Computing, an example: c₁", "s"),
    "latency_s": ("Latency: α", "s"),
    "bandwidth_bytes_per_s": ("Bandwidth: 1/β", "B/s"),
}
_FITS = [
    *_WHAT,
    Column("law", "Law"),
    Column("points", "Points"),
    *(
        Column(name, title, unit, "fitted", low=f"{name}_low", high=f"{name}_high")
        for name, (title, unit) in _COEFFICIENTS.items()
    ),
    Column("note", "Notes", wide=True),
]
_JUDGEMENT = [
    Column("scenario", "What was left out", wide=True),
    Column("law", "Law"),
    Column("curves", "Curves"),
    Column("points", "Points"),
    Column("median_error", "Median error", "share", "predicted"),
    Column("mean_error", "Mean error", "share", "predicted"),
    Column("worst_error", "Worst error", "share", "predicted"),
]


def pages(study: Study) -> Iterator[Page]:
    """Yield the page of the fits."""
    fits = study.overhead["fits"]
    context = {
        "sources": [_source(study, name) for name in _TITLES if (fits["source"] == name).any()],
        "judgement": table(study.overhead["judgement"], _JUDGEMENT),
    }
    yield Page("fit.html", "fit.md.j2", "How many nodes?", context, figures=True)


def _source(study: Study, source: str) -> dict[str, Any]:
    fits, predictions = (
        rows[rows["source"] == source]
        for rows in (study.overhead["fits"], study.overhead["predictions"])
    )
    held = held_out(predictions)
    return {
        "title": _TITLES[source],
        "anchor": source,
        "curves": _curves(study, predictions),
        "break_even": table(_titled(study, break_even(predictions)), _BREAK_EVEN),
        "fits": table(_titled(study, fits), _FITS),
        "held_out": table(_titled(study, held), _held_out(source)) if len(held) else None,
    }


def _titled(study: Study, rows: pd.DataFrame) -> pd.DataFrame:
    """Return `rows` with the title of each model; a fit that spans all models says so."""
    return rows.assign(model=rows["model"].map(study.model_title).replace("", "all of them"))


def _curves(study: Study, predictions: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the figures of each curve of one source."""
    return [
        {
            "title": study.model_title(of["model"]),
            "curve": of["curve"],
            "anchor": slug(of["curve"]),
            "figures": study.pick("outlook", "fit", curve=of["curve"]),
        }
        for of in predictions[CURVE].drop_duplicates().to_dict("records")
    ]


def _held_out(source: str) -> list[Column]:
    return [
        *_WHAT,
        Column("batch_per_worker", "Batch per worker"),
        Column("nodes", "Nodes"),
        Column("scenario", "What was left out", wide=True),
        Column("observed_s", "Step time", "s", source),
        Column("fitted_s", "By the law", "s", "predicted", low="low_s", high="high_s"),
        Column("error", "Error", "share", "predicted"),
    ]

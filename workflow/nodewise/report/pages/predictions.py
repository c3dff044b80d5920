"""Make the page "How many nodes?": the answers of the formulas, and how wrong these were."""

from collections.abc import Iterator
from typing import Any

import pandas as pd
from markupsafe import Markup

from nodewise.core.units import write_percent
from nodewise.predict.published_efficiency import standing_of_curve
from nodewise.predict.study import EACH, judge
from nodewise.report.context import ReportContext
from nodewise.report.fitted_curves import fitted_curves
from nodewise.report.html import breakable, slug
from nodewise.report.page import Page
from nodewise.report.pages import page
from nodewise.report.tables import BATCH, COVERED, Column, table

_TITLES = {
    "emulated": "Emulated clusters",
    "emulated soft": "Emulated clusters, shares held softly",
    "measured": "Measured without emulation",
    "published": "Published results",
    "imported": "Imported curves",
}
_ANSWERS = [
    Column("link", "Curve", wide=True),
    BATCH,
    Column("pays", "Faster than its own one node from"),
    Column("possible", "Fastest number of nodes, 90 % interval"),
    Column("measured", "Measured up to"),
    Column("speedup", "Speed-up there", "×", "fitted"),
    Column("price", "Cost there ÷ one node's", "×", "fitted"),
    Column("run", "Time to target accuracy there", "s", "fitted"),
    Column("run_one", "Time to target accuracy on one node", "s", "fitted"),
    Column("run_fastest", "Target accuracy soonest on"),
    Column("off", "Formula off by at most", "share", "error"),
]
_JUDGED = [
    Column("source", "Source"),
    Column("scenario", "What was left out", wide=True),
    Column("trained", "Nodes fitted → predicted"),
    Column("points", "Tests"),
    Column("median_error", "Median error", "share", "error"),
    Column("worst_error", "Worst error", "share", "error"),
    COVERED,
]


@page("predictions")
def pages(study: ReportContext) -> Iterator[Page]:
    """Yield the page: the answers for each source of points, then the errors of all formulas."""
    curves, predictions = fitted_curves(study), study.fit_tables["predictions"]
    of = {name: predictions[predictions["source"] == name] for name in _TITLES}
    sources = [_source(study, curves, name, rows) for name, rows in of.items() if len(rows)]
    errors = judge(study.fit_tables["trials"]).replace({"source": _TITLES})
    context = {
        "percent": write_percent,
        "judged": errors[errors["scenario"] == EACH].head(1).to_dict("records"),
        "answers": [answer for source in sources for answer in source["all"]],
        "sources": sources,
        "judgement": table(errors, _JUDGED),
    }
    yield Page(
        "predictions.html", "predictions/index.md.j2", "How many nodes?", context, figures=True
    )


def _source(
    study: ReportContext, curves: dict[str, Any], source: str, predictions: pd.DataFrame
) -> dict[str, Any]:
    """Return the answers of all curves of a source, and the curve with the most points."""
    points = predictions.groupby("curve", sort=False)["observed_s"].count()
    fitted = {str(key): curves[key] for key in points.index}
    link = Markup('<a href="{}">{}</a>')
    links = {key: link.format(one["page"], breakable(one["label"])) for key, one in fitted.items()}
    rows = [
        answer | {"link": links[key], "off": one["off"][1]}
        for key, one in fitted.items()
        for answer in one["answers"]
    ]
    return {
        "title": _TITLES[source],
        "anchor": slug(source),
        "curve": fitted[str(points.idxmax())],
        "links": list(links.values()),
        "all": rows,
        "answers": table([_row(row) for row in rows], _ANSWERS) if rows else None,
        "standings": list(_standings(study, fitted)) if source == "imported" else [],
    }


def _row(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the row of an answer in the table of all answers."""
    ends = dict.fromkeys((answer["least"], answer["most"]))
    never = {"pays": answer["pays"] or "never"}
    return answer | never | {"possible": " to ".join(str(end) for end in ends)}


def _standings(study: ReportContext, curves: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the labels of curves, and where they stand among published ones of the same kind."""
    for curve in study.fits.curves:
        if curve.name in curves and (found := standing_of_curve(curve)):
            yield curves[curve.name]["label"], found[0]

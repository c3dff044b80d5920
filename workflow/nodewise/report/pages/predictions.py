"""Make the page "How many nodes?": the answers of the formulas, and how wrong these were."""

from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd
from markupsafe import Markup

from nodewise.core.units import write_percent
from nodewise.predict.fit_curves import CURVE
from nodewise.predict.judge import EACH, judge
from nodewise.predict.law import LAWS
from nodewise.predict.published_efficiency import standing_of_curve
from nodewise.report.context import ReportContext
from nodewise.report.fitted_curves import Curves, coefficients, fitted_curve
from nodewise.report.html import slug, text
from nodewise.report.page import Page
from nodewise.report.pages import page
from nodewise.report.tables import BATCH, MODEL, Column, Table, table

PAGE = "predictions.html"
_TITLES = {
    "emulated": "Emulated clusters",
    "emulated soft": "Emulated clusters, shares held softly",
    "measured": "Processes of one machine",
    "published": "Published results",
    "imported": "Imported curves",
}
_LINE = [*CURVE, "batch_per_worker"]
_CURVE = Column("link", "Curve", wide=True)
_ANSWERS = [
    _CURVE,
    BATCH,
    Column("pays", "Faster than one node from"),
    Column("possible", "Fastest, 90 % interval"),
    Column("measured", "Measured up to"),
    Column("speedup", "Speed-up there", "×", "fitted"),
    Column("price", "Price there ÷ one node's", "×", "fitted"),
    Column("run", "Target accuracy there", "s", "fitted"),
    Column("run_one", "Target accuracy on one node", "s", "fitted"),
    Column("run_fastest", "Target accuracy soonest on"),
]
_SHARED = Column("link", "Shared by", wide=True)
_GROUP = ["source", "scenario", "trained"]
_JUDGED = [
    Column("source", "Points"),
    Column("scenario", "What was left out", wide=True),
    Column("trained", "Nodes"),
    Column("points", "Points predicted"),
    Column("median_error", "Median error", "share", "error"),
    Column("worst_error", "Worst error", "share", "error"),
    Column("covered", "Inside the 90 % interval", "share", "error"),
    Column("median_error_baseline", "Median error of the best baseline", "share", "error"),
    Column("law_baseline", "Best baseline"),
]
_OWN = "own"
_BASELINES = {name: LAWS[name].title for name in LAWS.baselines()}
_ERRORS = [
    _CURVE,
    BATCH,
    Column(_OWN, "Its own formula", "share", "error"),
    *(Column(name, title, "share", "error") for name, title in _BASELINES.items()),
]
_STANDING = [
    Column("publisher", "Publisher"),
    MODEL,
    Column("device", "Device"),
    Column("link", "Link"),
    Column("devices", "Devices"),
    Column("efficiency", "Efficiency", "share", "published"),
]


@page("predictions")
def pages(study: ReportContext) -> Iterator[Page]:
    """Yield the page: errors of all formulas first, then the answers for each source of points."""
    known = study.overhead["predictions"]["source"]
    curves = Curves(study)
    sources = [_source(curves, name) for name in _TITLES if (known == name).any()]
    judgement = judge(study.overhead["trials"])  # without trials that the pages leave out
    context = {
        "tested": study.pick("trials")[:1],
        "judged": _judged_first(judgement),
        "counts": _counts([answer for source in sources for answer in source["all"]]),
        "sources": sources,
        "baselines": [LAWS[name] for name in _BASELINES],
        "judgement": table(_judgement(judgement), _JUDGED),
    }
    yield Page(PAGE, "predictions/index.md.j2", "How many nodes?", context, figures=True)


def _judged_first(judgement: pd.DataFrame) -> dict[str, Any] | None:
    """Return the errors of the strategies' own formulas, for the first source with held-out points.

    None is returned if no points were held out.
    """
    own = judgement[judgement["own"] & (judgement["scenario"] == EACH)]
    if own.empty:
        return None
    first = own.iloc[0]
    shares = ("median_error", "worst_error", "covered")
    return {
        "points": first["points"],
        "of": _TITLES[first["source"]],
        **{name: write_percent(first[name]) for name in shares},
    }


def _counts(answers: list[dict[str, Any]]) -> dict[str, int]:
    """Count the answers by verdict, and those on the target accuracy."""
    targets = [one["run_fastest"] for one in answers if one["run_fastest"] is not None]
    found = {name: sum(one["verdict"] == name for one in answers) for name in ("more", "unknown")}
    return {
        "all": len(answers),
        **found,
        "at_once": sum(one["verdict"] == "more" and one["pays"] == 2 for one in answers),
        "targets": len(targets),
        "one_node": sum(nodes == 1 for nodes in targets),
    }


def _source(curves: Curves, source: str) -> dict[str, Any]:
    """Return the answers, errors and shared coefficients of all curves of a source."""
    of_source = {
        name: rows[rows["source"] == source]
        for name, rows in curves.study.overhead.items()
        if name in ("predictions", "trials", "fits")
    }
    points = of_source["predictions"]["observed_s"].notna()
    points = points.groupby(of_source["predictions"]["curve"], sort=False).sum()
    fitted = {str(key): fitted_curve(curves, str(key)) for key in points.index}
    links = {key: _link(one["page"], one["label"]) for key, one in fitted.items()}
    rows = [answer | {"link": links[key]} for key, of in fitted.items() for answer in of["answers"]]
    fits = of_source["fits"]
    shared = _titled(curves.study, fits[fits["curve"] == ""])
    return {
        "title": _TITLES[source],
        "anchor": slug(source),
        "curve": fitted[str(points.idxmax())],
        "links": list(links.values()),
        "all": rows,
        "answers": table([_row(row) for row in rows], _ANSWERS) if rows else None,
        "standings": list(_standings(curves, fitted)) if source == "imported" else [],
        "shared": coefficients(shared, _SHARED),
        "errors": _errors(of_source["trials"], links),
    }


def _link(target: str, label: str) -> Markup:
    return Markup('<a href="{}">{}</a>').format(target, text(label))


def _row(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the row of an answer in the table of all answers."""
    ends = dict.fromkeys((answer["least"], answer["most"]))
    never = {"pays": answer["pays"] or "never"}
    return answer | never | {"possible": " to ".join(str(end) for end in ends)}


def _standings(curves: Curves, keys: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield where curves stand among published ones of the same kind, which are listed."""
    for curve in curves.study.fits.curves:
        if curve.name in keys and (found := standing_of_curve(curve)):
            yield {
                "label": curves.labels[curve.name],
                "sentence": found.sentence,
                "published": table(found.curves, _STANDING),
            }


def _titled(study: ReportContext, fits: pd.DataFrame) -> pd.DataFrame:
    """Return coefficients in which links begin with the title of a strategy, not its name."""
    parts = [link.partition(", ") for link in fits["link"]]
    titled = [f"{study.strategy_title(first)}{comma}{rest}" for first, comma, rest in parts]
    return fits.assign(link=titled)


def _errors(trials: pd.DataFrame, links: dict[str, Markup]) -> Table | None:
    """Return the median error of every formula for every line, each number of nodes left out.

    None is returned if there are no such trials.
    """
    rows = trials[trials["scenario"] == EACH]
    if rows.empty:
        return None
    law = rows["law"].where(~rows["own"], _OWN)
    errors = rows.assign(law=law).pivot_table("error", _LINE, "law", "median", sort=False)
    errors = errors.reset_index()
    known = [column for column in _ERRORS if column is _CURVE or column.name in errors]
    return table(errors.assign(link=errors["curve"].map(links).astype(object)), known)


def _judgement(judgement: pd.DataFrame) -> pd.DataFrame:
    """Return the errors of the strategies' own formulas, beside those of the best baseline."""
    baseline = judgement[~judgement["own"]].sort_values("median_error", kind="stable")
    columns = [*_GROUP, "law", "median_error"]
    best = baseline[columns].drop_duplicates(_GROUP).replace({"law": _BASELINES})
    own = judgement[judgement["own"]]
    rows = own.merge(best, "left", _GROUP, suffixes=("", "_baseline"))
    return rows.replace({"source": _TITLES})

"""Make the pages of predictions: how many nodes are best, and how reliable the formulas are.

One page has the answers and the errors of all formulas. It links to a page for each source of
points (emulated, measured, published, imported), which has the answers and errors of all curves of
that source. The coefficients of a curve, and what limits its points, are on the curve's own page.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd
from markupsafe import Markup

from nodewise.predict.fit_queries import CURVE
from nodewise.predict.judge import EACH, LARGEST
from nodewise.predict.law import LAWS
from nodewise.predict.parts_law import baselines
from nodewise.predict.published_efficiency import standing_of_curve
from nodewise.report.context import ReportContext
from nodewise.report.fitted_curves import Curves, coefficients, fitted_curve
from nodewise.report.html import number, slug, text
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
_OWN = "own"
_LINE = [*CURVE, "batch_per_worker"]
_CURVE = Column("link", "Curve", wide=True)
_NODES = {
    "pays": "Faster than the same strategy on one node from",
    "knee": "Each further node adds less than half of itself from",
    "efficiency": "Efficiency of 0.5 or more up to",
    "fastest": "Shortest epoch on",
    "cheapest": "Cheapest epoch on",
    "run": "Target accuracy soonest on",
}
_JUDGEMENT = [
    Column("source", "Points"),
    Column("scenario", "What was left out", wide=True),
    Column("trained", "Nodes"),
    Column("law", "Formula"),
    Column("curves", "Lines"),
    Column("points", "Points predicted"),
    Column("median_error", "Median error", "share", "predicted"),
    Column("mean_error", "Mean error", "share", "predicted"),
    Column("worst_error", "Worst error", "share", "predicted"),
    Column("covered", "Inside the 90 % interval", "share", "predicted"),
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
    """Yield the page of the answers, then a page for each source of points."""
    predictions = study.overhead["predictions"]
    sources = [name for name in _TITLES if (predictions["source"] == name).any()]
    curves = Curves(study)
    context = {
        "sources": [_overview(curves, name) for name in sources],
        "baselines": [LAWS[name] for name in baselines()],
        "verdict": list(_verdict(study.overhead["judgement"])),
        "beaten": _beaten(study.overhead["judgement"]),
        "judgement": table(_judgement(study.overhead["judgement"]), _JUDGEMENT),
    }
    yield Page(PAGE, "predictions/index.md.j2", "How many nodes?", context, figures=True)
    for name in sources:
        yield Page(_path(name), "predictions/source.md.j2", _TITLES[name], _source(curves, name))


def _path(name: str) -> str:
    return f"predictions/{slug(name)}.html"


def _overview(curves: Curves, source: str) -> dict[str, Any]:
    """Return the overview of a source: the answers for its curve with the most points."""
    predictions = curves.study.overhead["predictions"]
    mine = predictions[predictions["source"] == source]
    points = mine["observed_s"].notna().groupby(mine["curve"]).sum()
    return {
        "title": _TITLES[source],
        "anchor": slug(source),
        "page": _path(source),
        "curve": fitted_curve(curves, str(points.idxmax())),
    }


def _source(curves: Curves, source: str) -> dict[str, Any]:
    of_source = {
        name: rows[rows["source"] == source]
        for name, rows in curves.study.overhead.items()
        if name in ("predictions", "optima", "trials", "fits")
    }
    trials = _linked(curves, of_source["trials"])
    fits = of_source["fits"]
    keys = list(of_source["predictions"]["curve"].unique())
    return {
        "heading": _TITLES[source],
        "curves": [{"label": curves.labels[key], "page": curves.page(key)} for key in keys],
        "standings": list(_standings(curves, keys)) if source == "imported" else [],
        "answers": _answers(_linked(curves, of_source["optima"])),
        "shared": coefficients(_of_links(curves.study, fits[fits["curve"] == ""]), shared=True),
        "largest": _trials(trials, LARGEST),
        "each": _trials(trials, EACH),
    }


def _standings(curves: Curves, keys: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield where curves stand among published ones of the same kind, which are listed."""
    for curve in curves.study.fits.curves:
        if curve.name in keys and (found := standing_of_curve(curve)):
            efficiency, devices, standing = found
            yield {
                "label": curves.labels[curve.name],
                "sentence": standing.sentence(efficiency, devices, curve.node),
                "published": table(standing.curves, _STANDING),
            }


def _of_links(study: ReportContext, fits: pd.DataFrame) -> pd.DataFrame:
    """Return coefficients in which links begin with the title of a strategy instead of its name.

    Links that do not begin with a name of a strategy stay as they are.
    """
    parts = [link.partition(", ") for link in fits["link"]]
    titled = [f"{study.strategy_title(first)}{comma}{rest}" for first, comma, rest in parts]
    return fits.assign(link=titled)


def _linked(curves: Curves, rows: pd.DataFrame) -> pd.DataFrame:
    """Add the column `link`: a link to the page of the row's curve, for pages in `predictions/`."""
    link = Markup('<a href="../{}">{}</a>')
    links = {
        key: link.format(curves.page(key), text(label)) for key, label in curves.labels.items()
    }
    return rows.assign(link=rows["curve"].map(links).astype(object))


def _answers(optima: pd.DataFrame) -> Table | None:
    """Return a table with a row per curve and batch, and a column per question with its answer.

    The answers are numbers of nodes. None is returned if there are no answers at a fixed batch per
    worker.
    """
    if optima.empty:
        return None
    rows: list[dict[str, Any]] = []
    for _, line in optima.groupby(_LINE, sort=False):
        first, runs = line.iloc[0], line[line["job"] == "run"]
        epochs = line.drop(runs.index)
        row = {"link": first["link"], "batch_per_worker": int(first["batch_per_worker"])}
        for name in ("knee", "efficiency", "fastest", "cheapest"):
            row[name] = _nodes(epochs[_is_best(epochs, name)])
        if len(runs):
            row["run"] = _nodes(runs[_is_best(runs, "fastest")])
        rows.append(row | {"pays": _nodes(epochs[epochs["break_even"]])})
    known = [name for name in _NODES if any(name in row for row in rows)]
    columns = [_CURVE, BATCH, *(Column(name, _NODES[name]) for name in known)]
    return table([dict.fromkeys(known) | row for row in rows], columns)


def _is_best(rows: pd.DataFrame, objective: str) -> "pd.Series[bool]":
    return rows["best_for"].map(lambda names: objective in names.split(", "))


def _nodes(rows: pd.DataFrame) -> Markup:
    """Return the number of nodes of the first row."""
    if rows.empty:
        return Markup("no number compared")
    return number(rows["nodes"].iloc[0], "", rows["kind"].iloc[0])


def _trials(trials: pd.DataFrame, scenario: str) -> Table | None:
    """Return a table of the errors of every formula for every line; medians over points.

    None is returned if there are no trials of the scenario.
    """
    rows = trials[trials["scenario"] == scenario]
    if rows.empty:
        return None
    law = rows["law"].where(~rows["own"], _OWN)
    errors = rows.assign(law=law).pivot_table("error", _LINE, "law", "median", sort=False)
    known = [column for column in _trial_columns() if column.name in errors]
    links = rows.drop_duplicates("curve")[["curve", "link"]]
    return table(errors.reset_index().merge(links), [_CURVE, BATCH, *known])


def _trial_columns() -> list[Column]:
    titles = {_OWN: "Its own formula"}
    titles |= {name: LAWS[name].title for name in baselines()}
    return [Column(name, title, "share", "predicted") for name, title in titles.items()]


def _verdict(judgement: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield, for each source, the errors of predictions for node counts left out in turn."""
    each = judgement[judgement["scenario"] == EACH]
    for source, rows in each.groupby("source", sort=False):
        own = rows[rows["own"]]
        if own.empty:
            continue
        first, others = own.iloc[0], rows[~rows["own"]]
        yield {
            "source": _TITLES[str(source)],
            "points": first["points"],
            "off": number(first["median_error"], "share", "predicted"),
            "baseline": _best_baseline(others) if len(others) else None,
            "covered": number(first["covered"], "share", "predicted"),
        }


def _best_baseline(rows: pd.DataFrame) -> dict[str, Any]:
    best = rows.sort_values("median_error", kind="stable").iloc[0]
    return {
        "title": LAWS[best["law"]].title,
        "off": number(best["median_error"], "share", "predicted"),
    }


def _beaten(judgement: pd.DataFrame) -> dict[str, Any]:
    """Find the groups of points that a baseline predicted better than their own formula.

    Median errors are compared. `groups` is the number of all groups, `found` has those groups.
    """
    groups, found = 0, []
    for (source, scenario, trained), rows in judgement.groupby(
        ["source", "scenario", "trained"], sort=False
    ):
        own, others = rows[rows["own"]], rows[~rows["own"]]
        if own.empty or others.empty:
            continue
        groups += 1
        mine = own.iloc[0]
        if others["median_error"].min() < mine["median_error"]:
            found.append(
                {
                    "where": f"{source}, {f'{trained} nodes' if trained else scenario}",
                    "points": mine["points"],
                    "baseline": _best_baseline(others),
                    "off": number(mine["median_error"], "share", "predicted"),
                }
            )
    return {"groups": groups, "found": found}


def _judgement(judgement: pd.DataFrame) -> pd.DataFrame:
    titles = {name: LAWS[name].title for name in LAWS}
    return judgement.assign(law=judgement["law"].replace(titles))

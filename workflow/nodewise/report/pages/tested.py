"""Make the page on predictions that were tested on published numbers, the largest misses first."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from nodewise.core.units import write_percent, write_plain
from nodewise.report.context import ReportContext
from nodewise.report.html import text
from nodewise.report.page import Page
from nodewise.report.pages import page
from nodewise.report.published_rows import (
    CONTINUED,
    CONTINUED_FILE,
    FORECASTS_FILE,
    continued,
    forecasts,
    link_title,
)
from nodewise.report.tables import Column, table
from nodewise.results import published

_MISSES = 10
_FEW = 10  # points; links with fewer are not listed
_ERRORS = [
    Column("median", "Half are within", "share", "error"),
    Column("p90", "Nine in ten are within", "share", "error"),
    Column("covered", "Inside the stated range", "share", "error"),
]
_LINKS = [Column("link", "Devices connected by"), Column("points", "Points"), *_ERRORS]
_ROWS = [
    Column("model", "Model"),
    Column("device", "Device"),
    Column("link", "Link"),
    Column("known", "Known devices"),
    Column("devices", "Predicted"),
    Column("measured", "Measured"),
    Column("predicted", "Predicted, range"),
    Column("off", "Off by", "share", "error"),
]
_RULES = ["same efficiency", "last slope", "half the last slope", "straight line of time"]


@page("tested")
def pages(study: ReportContext) -> Iterator[Page]:
    """Yield the page."""
    curves, cases = continued(), forecasts()
    most = cases.sort_values("devices")
    ends = most.drop_duplicates(["case", "given_value"], keep="last")
    every = pd.concat([curves, ends]).sort_values("off", ascending=False)
    tests = pd.concat([curves, cases]).sort_values("off", ascending=False)
    misses = tests.drop_duplicates(["publisher", "model"]).head(_MISSES)
    judged = published.read("forecast/judged")
    figures = study.pick("tested") if study else []
    context = {
        "percent": write_percent,
        "curves": {"file": CONTINUED_FILE, "count": len(curves), **_errors(curves)},
        "cases": {"file": FORECASTS_FILE, **judged[judged["link"] == "all"].iloc[0]},
        "figures": figures,
        "misses": table(_rows(misses), _ROWS),
        "slower": int((misses["ratio"] > 1).sum()),
        "missed": len(misses),
        "links": [table(rows, _LINKS) for rows in (_of_forecasts(judged), _of_curves(curves))],
        "rule": _best_rule(curves),
        "next": _next(),
        "every": table(_rows(every), _ROWS),
        "continued": int((every["how"] == CONTINUED).sum()),
    }
    yield Page("tested.html", "tested.md.j2", "Tested on published curves", context, bool(figures))


def _errors(rows: pd.DataFrame) -> dict[str, Any]:
    half, most = rows["off"].quantile([0.5, 0.9])
    return {"points": len(rows), "median": half, "p90": most, "covered": rows["inside"].mean()}


def _of_forecasts(judged: pd.DataFrame) -> pd.DataFrame:
    rows = judged[(judged["points"] >= _FEW) & ~judged["link"].isin(["all", "within a node"])]
    return rows.assign(link=rows["link"].map(_with_generation)).sort_values("median")


def _with_generation(name: str) -> str:
    """Return the title of a kind of link, with the generation at its end: `pcie3` is PCIe 3."""
    generation = next((letter for letter in name.partition("-")[0][-1] if letter.isdigit()), "")
    return f"{link_title(name)} {'' if 'gbit' in name else generation}".strip()


def _of_curves(curves: pd.DataFrame) -> list[dict[str, Any]]:
    rows = [{"link": link} | _errors(part) for link, part in curves.groupby("link")]
    return sorted(rows, key=lambda row: row["median"])


def _best_rule(curves: pd.DataFrame) -> dict[str, Any]:
    """Return the simple rule with the least median error."""
    wrong = curves[_RULES].abs().apply(np.expm1)
    name = str(wrong.median().idxmin())
    return {"name": name, "median": wrong[name].median(), "p90": wrong[name].quantile(0.9)}


def _next() -> dict[str, Any]:
    """Return how many measurements two ways to search for the best number of devices take."""
    rows = published.read("curves/next_measurements")
    return {"count": len(rows), **rows.mean(numeric_only=True)}


def _rows(tests: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the tests as rows of texts, in which the model links to its source."""
    link = Markup('<a href="{}">{}</a>')
    values = Markup('{} <span class="nw-range">{} to {}</span>')
    ends = ["predicted", "low", "high"]
    return [
        {name: row[name] for name in ("device", "link", "known", "devices", "off")}
        | {
            "model": link.format(row["source"], text(row["model"])),
            "measured": f"{write_plain(row['measured'])} {row['unit']}",
            "predicted": values.format(*(write_plain(row[end]) for end in ends)),
        }
        for row in tests.to_dict("records")
    ]

"""Make the page on predictions that were tested on published numbers, the largest misses first."""

from collections.abc import Iterator
from typing import Any

import pandas as pd
from markupsafe import Markup

from nodewise.core.units import write_percent, write_plain
from nodewise.report.context import ReportContext
from nodewise.report.html import text
from nodewise.report.page import Page
from nodewise.report.pages import page
from nodewise.report.pages.your_case import title_of_link
from nodewise.report.published_rows import CONTINUED_FILE, FORECASTS_FILE, continued, forecasts
from nodewise.report.tables import COVERED, ERROR_HALF, ERROR_MOST, Column, table
from nodewise.results import published

_MISSES = 10
_FEW = 10  # points; links with fewer are not listed
_ERRORS = [ERROR_HALF, ERROR_MOST, COVERED]
_LINKS = [Column("link", "Devices connected by"), Column("points", "Points"), *_ERRORS]
_ROWS = [
    Column("model", "Model"),
    Column("off", "Off by", "share", "error"),
    Column("devices", "On devices"),
    Column("measured", "Measured"),
    Column("predicted", "Predicted"),
    Column("link", "Link"),
    Column("device", "Device"),
    Column("known", "Known devices"),
]


@page("tested")
def pages(study: ReportContext) -> Iterator[Page]:
    """Yield the page."""
    curves, cases = continued(), forecasts()
    ends = cases.sort_values("devices").drop_duplicates(["case", "given_value"], keep="last")
    every = pd.concat([curves, ends]).sort_values("off", ascending=False)
    tests = pd.concat([curves, cases]).sort_values("off", ascending=False)
    misses = tests.drop_duplicates(["publisher", "model"]).head(_MISSES)
    judged = published.read("forecast/judged")
    given = judged[judged["link"].str.startswith("all")]
    given = given.assign(link=given["link"].str.removeprefix("all, ").replace("all", "one point"))
    kinds = judged.drop(given.index).query("points >= @_FEW").sort_values("median")
    kinds = kinds.assign(link=kinds["link"].map(title_of_link))
    following = published.read("curves/next_measurements")
    context = {
        "percent": write_percent,
        "curves": {"file": CONTINUED_FILE, "count": len(curves), **_errors(curves)},
        "cases": {"file": FORECASTS_FILE, **judged.set_index("link").loc["all"]},
        "given": table(given, [Column("link", "Given"), *_LINKS[1:]]),
        "figures": study.pick("tested"),
        "misses": table(_rows(misses), _ROWS),
        "slower": int((misses["ratio"] > 1).sum()),
        "links": [table(rows, _LINKS) for rows in (kinds, _by_link(curves))],
        "next": {"count": len(following), **following.mean(numeric_only=True)},
        "every": table(_rows(every), _ROWS),
    }
    yield Page("tested.html", "tested.md.j2", "Tested on published curves", context, figures=True)


def _errors(rows: pd.DataFrame) -> dict[str, Any]:
    half, most = rows["off"].quantile([0.5, 0.9])
    return {"points": len(rows), "median": half, "p90": most, "covered": rows["inside"].mean()}


def _by_link(tests: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the errors for each kind of link of which there are enough tests."""
    rows = [{"link": link} | _errors(part) for link, part in tests.groupby("link")]
    return sorted((row for row in rows if row["points"] >= _FEW), key=lambda row: row["median"])


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

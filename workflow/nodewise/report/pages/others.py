"""Make the page of scaling curves that others published, and how well they are predicted."""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from nodewise.core.intervals import INTERVAL
from nodewise.core.units import write_plain
from nodewise.predict.published_accuracy import NEXT, PREDICTED, levels, read_next, read_predicted
from nodewise.predict.similar_curves import PUBLISHED
from nodewise.report.context import ReportContext
from nodewise.report.html import number
from nodewise.report.page import Page
from nodewise.report.pages import page
from nodewise.report.tables import Column, table

_LEVELS = [
    Column("rule", "Rule"),
    Column("median", "Median error", "share", "predicted"),
    Column("p90", "Error of nine in ten, at most", "share", "predicted"),
    Column("publishers, median", "Median error, publishers weighted equally", "share", "predicted"),
    Column("mean of log", "Mean of the absolute log error", "share", "predicted"),
]
_WAYS = {"doubling": "Doubling the devices", "next": "Following nodewise next"}
_NEXT = [
    Column("way", "Way"),
    Column("measured", "Measurements, mean", "mean", "predicted"),
    Column("good", "Curves whose best time is missed by at most 10\u00a0%", "share", "predicted"),
    Column("loss", "Lost time, mean", "share", "predicted"),
]
_FILTERS = {
    "publisher": "Publisher",
    "framework": "Framework",
    "model": "Model",
    "device": "Device",
    "scaling": "Scaling",
    "year": "Year",
}


@page("others")
def pages(study: ReportContext) -> Iterator[Page]:
    """Yield the page: the errors of the predictions, and every curve with its source."""
    predicted = read_predicted()
    found = levels(predicted)
    shares = found.div(100).rename_axis("rule").reset_index()
    curves = _curves(predicted)
    context = {
        "file": f"data/published/curves/{PREDICTED.name}",
        "curves_file": f"data/published/curves/{PUBLISHED.name}",
        "count": len(curves),
        "publishers": predicted["publisher"].nunique(),
        "median": number(float(found["median"]["ours"]) / 100, "share", "predicted"),
        "covered": number(predicted["covered"].mean(), "share", "predicted"),
        "interval": f"{100 * INTERVAL:g}\u00a0%",
        "levels": table(shares.replace({"rule": {"ours": "nodewise"}}), _LEVELS),
        "next": _next(),
        "curves": curves,
        "filters": list(_FILTERS.items()),
    }
    yield Page("others.html", "others.md.j2", "What happened to others", context)


def _next() -> dict[str, Any]:
    """Compare the ways to search for the best number of devices.

    For each way, the table has the mean number of measurements, how often it finds a good number,
    and the mean time lost.
    """
    rows = read_next()
    ways = [
        {"way": title}
        | {what: rows[f"{way}_{what}"].mean() for what in ("measured", "good", "loss")}
        for way, title in _WAYS.items()
    ]
    return {
        "file": f"data/published/curves/{NEXT.name}",
        "count": len(rows),
        "table": table(ways, _NEXT),
        "means": {
            way: number(rows[f"{way}_measured"].mean(), "mean", "predicted") for way in _WAYS
        },
    }


def _curves(predicted: pd.DataFrame) -> list[dict[str, str]]:
    """Return one row of texts per curve: its source, what was measured and what was predicted."""
    points = pd.read_csv(PUBLISHED, keep_default_na=False).sort_values("n_devices")
    by_curve = dict(iter(points.groupby("curve")))
    rows = []
    for row in predicted.to_dict("records"):
        mine = by_curve[row["curve"]]
        about = mine.iloc[0]
        rows.append(
            {name: str(about[name]) for name in (*_FILTERS, "unit", "source_url") if name in about}
            | {
                "curve": row["curve"],
                "publisher": row["publisher"],
                "known": ", ".join(f"{devices}" for devices in mine["n_devices"].iloc[:-1]),
                "devices": str(row["devices"]),
                **{name: write_plain(row[name]) for name in ("value", "predicted", "low", "high")},
            }
        )
    return rows

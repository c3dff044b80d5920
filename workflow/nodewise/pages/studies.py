"""Studies: one page per published study that is being reproduced."""

import re
from collections.abc import Iterator
from typing import Any

import pandas as pd

from nodewise.pages.markup import Column, number, table
from nodewise.pages.study import Page, Study
from nodewise.quantities import PROJECTED
from nodewise.views import beside_published

NTUA = "Multi-node Training with TensorFlow"

_TABLE_2 = [
    Column("model", "Model"),
    Column("batch_per_worker", "Batch per worker"),
    Column("nodes", "Nodes"),
    Column("seconds_published", "Time", "s", "published"),
    Column("seconds_ours", "Our time", "s", kind_from="label"),
    Column("ratio", "Ours ÷ published", "×", kind_from="label"),
    Column("label", "Kind of our time"),
    Column("accuracy_published", "Accuracy", "accuracy", "published"),
    Column("accuracy_ours", "Our accuracy", "accuracy", kind_from="accuracy_label"),
    Column("accuracy_label", "Kind of our accuracy"),
    Column("flags", "Caution"),
]


def pages(study: Study) -> Iterator[Page]:
    """Yield a page per published study, and the page that lists them."""
    listed = []
    points = beside_published(study.tables)
    points = points[points["study"] == "ntua"]
    if len(points):
        path = "studies/ntua.html"
        measured = int(points["ratio"].notna().sum())
        listed.append({"page": path, "title": NTUA, "points": len(points), "measured": measured})
        yield Page(path, "studies/ntua.md.j2", NTUA, _ntua(study, points), figures=True)
    context = {"studies": listed}
    yield Page("studies/index.html", "studies/index.md.j2", "Studies", context, contents=False)


def _ntua(study: Study, points: pd.DataFrame) -> dict[str, Any]:
    printed, read = points["printed_dataset"].map(_letters), points["dataset"].map(_letters)
    titles = {model: study.model_title(model) for model in points["model"]}
    fashion = {"study": "ntua", "model": "fashion_cnn"}
    return {
        "figure_20": study.pick("time", **fashion),
        "figure_21": study.pick("accuracy", **fashion),
        "ratio": _ratio(points.dropna(subset="ratio")),
        "relabelled": int((printed != read).sum()),
        "table": table(points.assign(model=points["model"].map(titles)), _TABLE_2),
    }


def _ratio(measured: pd.DataFrame) -> dict[str, Any] | None:
    """Return the median ratio; its kind is that of the most projected time in it."""
    if measured.empty:
        return None
    projected = measured["label"].str.contains(PROJECTED, regex=False)
    label = measured["label"][projected].iloc[0] if projected.any() else measured["label"].iloc[0]
    value = number(measured["ratio"].median(), "×", label)
    return {"points": len(measured), "number": value}


def _letters(name: str) -> str:
    """Return a dataset's name without spaces and underscores, to compare spellings."""
    return re.sub(r"[^a-z0-9]", "", name.lower())

"""Make the page that lists all launches, with links to their records."""

from collections.abc import Iterator

from nodewise.report.context import ReportContext
from nodewise.report.html import number, titled
from nodewise.report.page import Page
from nodewise.report.pages import page

_FILTERS = {
    "experiment": "Experiment",
    "model": "Model",
    "strategy": "Strategy",
    "batch": "Batch",
    "nodes": "Nodes",
    "status": "Status",
    "label": "Kind",
}
_NAMES = ("experiment", "model", "strategy")


@page("records")
def pages(study: ReportContext) -> Iterator[Page]:
    """Yield the list of all launches, which readers can filter."""
    words = {**study.words, "experiment": study.experiment_title}
    listed = [
        row
        | {"batch": row["batch_per_worker"]}
        | {"named": {name: titled(row[name], words[name](row[name])) for name in _NAMES}}
        | {"step_time": number(row["step_time_s"], "s", row["label"])}
        for row in study.cells.to_dict("records")
    ]
    context = {"cells": listed, "filters": list(_FILTERS.items())}
    yield Page("records.html", "records.md.j2", "All records", context, contents=False)

"""Records: every launch in one list, with a link to its file."""

from collections.abc import Iterator

from nodewise.report.context import ReportContext
from nodewise.report.html import number
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


@page("records")
def pages(study: ReportContext) -> Iterator[Page]:
    """Yield the list of all launches, which readers can filter."""
    listed = [
        row
        | {"batch": row["batch_per_worker"]}
        | {"step_time": number(row["step_time_s"], "s", row["label"])}
        for row in study.cells.to_dict("records")
    ]
    context = {"cells": listed, "filters": list(_FILTERS.items())}
    yield Page("records.html", "records.md.j2", "All records", context, contents=False)

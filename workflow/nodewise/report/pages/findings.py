"""Make the findings page: one question per section, answered in one sentence from the tables."""

from collections.abc import Iterator

from nodewise.core.intervals import INTERVAL
from nodewise.report.answers import give_answers
from nodewise.report.context import ReportContext
from nodewise.report.page import Page
from nodewise.report.pages import page


@page("findings")
def pages(study: ReportContext) -> Iterator[Page]:
    """Yield the page of the findings."""
    context = {
        "findings": list(give_answers(study)),
        "level": f"{100 * INTERVAL:g}",
    }
    yield Page("findings.html", "findings.md.j2", "Findings", context, figures=True)

"""Make the page that explains how to read each figure."""

from collections.abc import Iterator

from nodewise.report.context import ReportContext
from nodewise.report.figures import FIGURES
from nodewise.report.html import slug
from nodewise.report.page import Page
from nodewise.report.pages import page


@page("how_to_read")
def pages(study: ReportContext) -> Iterator[Page]:
    """Yield the page that every chart links to; the anchor of a figure is its `slug`."""
    context = {
        "figures": [(slug(name), FIGURES[name].plots, FIGURES[name].reading) for name in FIGURES],
    }
    yield Page("how-to-read.html", "how_to_read.md.j2", "How to read the charts", context)

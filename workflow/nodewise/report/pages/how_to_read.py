"""Make the page that explains how to read each figure, and the colours of strategies."""

from collections.abc import Iterator

from nodewise.report.addresses import strategy_page
from nodewise.report.context import ReportContext
from nodewise.report.figures import FIGURES, by_order
from nodewise.report.html import slug
from nodewise.report.page import Page
from nodewise.report.pages import page
from nodewise.report.theme import strategy_shades
from nodewise.report.titles import short_title
from nodewise.strategies import STRATEGIES


@page("how_to_read")
def pages(study: ReportContext) -> Iterator[Page]:
    """Yield the page that every chart links to; the anchor of a figure is its `slug`."""
    context = {
        "figures": [
            (slug(name), FIGURES[name].plots, FIGURES[name].reading) for name in by_order()
        ],
        "strategies": [
            (strategy_page(name), short_title(name), strategy_shades(name)[0])
            for name in STRATEGIES
        ],
    }
    yield Page("how-to-read.html", "how_to_read.md.j2", "How to read the charts", context)

"""The pages of the site: each module here makes one, or those of one kind, and registers it.

To add a page, write such a module and its template; or, if it has no numbers of a study, plain
Markdown in site/pages. mkdocs.yml names only the pages that the head of the site shows.
"""

from collections.abc import Callable, Iterable

from nodewise.core.registry import Registry
from nodewise.report.context import ReportContext
from nodewise.report.page import Page

Pages = Callable[[ReportContext], Iterable[Page]]

PAGES: Registry[Pages] = Registry("page", "nodewise.report.pages")


def page(name: str) -> Callable[[Pages], Pages]:
    """Register the decorated function: it takes a study and returns the pages to render."""

    def register(pages: Pages) -> Pages:
        PAGES.add(name, pages)
        return pages

    return register

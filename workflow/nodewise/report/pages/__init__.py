"""Make the pages of the site; each module of this folder registers one page or one kind of pages.

To add a page, write such a module and a template. A page without numbers of a study can be a plain
Markdown file in site/pages instead. mkdocs.yml lists only the pages in the navigation of the site.
"""

from collections.abc import Callable, Iterable

from nodewise.core.registry import Registry
from nodewise.report.context import ReportContext
from nodewise.report.page import Page

Pages = Callable[[ReportContext], Iterable[Page]]

PAGES: Registry[Pages] = Registry("page", "nodewise.report.pages")


def page(name: str) -> Callable[[Pages], Pages]:
    """Register the decorated function, which takes a study and returns the pages to render."""

    def register(pages: Pages) -> Pages:
        PAGES.add(name, pages)
        return pages

    return register

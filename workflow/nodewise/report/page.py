"""Define what a page of the site consists of."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from nodewise.report.html import slug

_SECTIONS = {"curves": "results"}
"""The sections of folders that the navigation does not list."""
_BOOSTS = {"curves": 0.8, "records": 0.2, "changes": 0.2, "how-to-read": 0.5}


@dataclass(frozen=True)
class Page:
    """A page of the site.

    Attributes:
        path: its path in the site, `….html`.
        template: the path of its template.
        title: its title.
        context: the variables that the template uses.
        figures: whether the page needs the scripts of charts.
        contents: whether the page has a table of contents.
    """

    path: str
    template: str
    title: str
    context: Mapping[str, Any]
    figures: bool = False
    contents: bool = True

    @property
    def section(self) -> Markup:
        """The name of its folder or file, by which the navigation finds the entry it belongs to."""
        return slug(_SECTIONS.get(self._top, self._top))

    @property
    def boost(self) -> float:
        """How much more the search weighs its words than those of other pages."""
        return _BOOSTS.get(self._top, 1)

    @property
    def _top(self) -> str:
        return self.path.partition("/")[0].removesuffix(".html")

    @property
    def source(self) -> str:
        """The path of the page's Markdown file."""
        return f"{self.path.removesuffix('.html')}.md"

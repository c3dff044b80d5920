"""Define what a page of the site consists of."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# file or folder -> its entry of the navigation; all others belong to the last entry
_TABS = {
    "index.html": "index.html",
    "your-case.html": "your-case.html",
    "time-to-accuracy.html": "time-to-accuracy.html",
    **dict.fromkeys(["results", "curves", "findings.html"], "results/index.html"),
    "studies": "studies/index.html",
}


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
    def tab(self) -> str:
        """The address of the navigation entry that the page belongs to."""
        top = self.path.partition("/")[0]
        return _TABS.get(top, "method.html")

    @property
    def source(self) -> str:
        """The path of the page's Markdown file."""
        return f"{self.path.removesuffix('.html')}.md"

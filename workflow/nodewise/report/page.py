"""What a page is."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# file or folder -> entry of the navigation, if it is not the last one
_TABS = {
    "index.html": "index.html",
    "your-case.html": "your-case.html",
    **dict.fromkeys(["results", "curves", "findings.html"], "results/index.html"),
    "studies": "studies/index.html",
}


@dataclass(frozen=True)
class Page:
    """One page: its path in the site (`….html`), its template, its title, and what it says.

    `figures` tells whether it needs the scripts of charts, `contents` whether it has a table of
    contents.
    """

    path: str
    template: str
    title: str
    context: Mapping[str, Any]
    figures: bool = False
    contents: bool = True

    @property
    def tab(self) -> str:
        """The entry of the navigation that it belongs to, by address."""
        top = self.path.partition("/")[0]
        return _TABS.get(top, "method.html")

    @property
    def source(self) -> str:
        """The Markdown file that is written for it."""
        return f"{self.path.removesuffix('.html')}.md"

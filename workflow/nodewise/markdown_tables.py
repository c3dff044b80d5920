"""A Markdown extension: what is not searched passes unread, tables above all.

Markdown, MkDocs and the theme's search would each parse it, which took most of the time of a site.
"""

import re

from markdown import Extension, Markdown  # type: ignore[import-untyped]
from markdown.preprocessors import Preprocessor  # type: ignore[import-untyped]

# what the search would skip: charts in words and numbers, with their table, and other tables
_UNSEARCHED = re.compile(
    r'<(details|table) class="nw-(?:data|table)[^"]*" data-search-exclude.*?</\1>', re.DOTALL
)
_KEPT = re.compile(r"<!--nodewise (\d+)-->")
_BEFORE_HTML = 25  # the priority of Markdown's own reader of HTML is 20

_kept: list[str] = []  # of all pages: MkDocs makes an extension anew for each


class Tables(Extension):  # type: ignore[misc]
    """Keeps the tables of pages for `put_back`, and leaves a comment in place of each."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 (Markdown's name)
        """Register what does so."""
        md.preprocessors.register(_Tables(md), "nodewise_tables", _BEFORE_HTML)


class _Tables(Preprocessor):  # type: ignore[misc]
    def run(self, lines: list[str]) -> list[str]:
        return _UNSEARCHED.sub(_keep, "\n".join(lines)).split("\n")


def _keep(found: re.Match[str]) -> str:
    _kept.append(found[0])
    return f"<!--nodewise {len(_kept) - 1}-->"


def put_back(page: str) -> str:
    """Return a page that MkDocs wrote with its tables."""
    return _KEPT.sub(lambda comment: _kept[int(comment[1])], page)

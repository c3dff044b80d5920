"""A Markdown extension: tables of HTML pass unread, whose tags take most of the time to parse."""

import re

from markdown import Extension, Markdown  # type: ignore[import-untyped]
from markdown.preprocessors import Preprocessor  # type: ignore[import-untyped]

_TABLE = re.compile(r'<table class="nw-table".*?</table>', re.DOTALL)
_BEFORE_HTML = 25  # the priority of Markdown's own reader of HTML is 20


class Tables(Extension):  # type: ignore[misc]
    """Hands the tables of pages on as they are."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 (Markdown's name)
        """Register what does so."""
        md.preprocessors.register(_Tables(md), "nodewise_tables", _BEFORE_HTML)


class _Tables(Preprocessor):  # type: ignore[misc]
    def run(self, lines: list[str]) -> list[str]:
        text = "\n".join(lines)
        return _TABLE.sub(lambda found: self.md.htmlStash.store(found[0]), text).split("\n")

"""Find numbers in the prose of a page that come from no table, record or declared file.

A number has a source if it is in `<data>`, in a table, in a drawing or in code, in a text that a
record or a chart provides (`_GIVEN`), or in an element that names its source: `data-table` names
tables of the site, `data-file` a file that declares the number. All others were typed by hand.
"""

import re
from collections.abc import Iterator
from html.parser import HTMLParser

Attributes = dict[str, str]

_VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source"}
_NO_PROSE_TAGS, _NO_PROSE = {"code", "pre", "svg", "script", "style"}, {"nw-formula"}
_GIVEN_TAGS = {"data", "table", "select", "figcaption"}
_GIVEN = {
    *("nw-data", "nw-facts", "nw-gaps", "nw-sub", "nw-kind"),  # texts of charts, records and cells
    *("failure", "warning"),  # admonitions: reasons that records give
    "nw-toc",  # It repeats headings, which are checked where they stand.
}
_GIVEN_IDS = {"cell"}  # the heading of a cell's page: its parameters

# A number is a word of its own: Conv2D, CIFAR-10, Apache-2.0, n=2 and arXiv:1511.05950 have none.
_NUMBER = re.compile(r"(?<![\w.:,^~-])(?<!\w[-/])\d+(?:[.,:]\d+)*(?!\w)")
_ALLOWED = {
    "a figure, section, algorithm or worker by its number": re.compile(
        r"\b(?:[Ff]igures?|[Ss]ection|[Aa]lgorithm|[Ww]orker) \d+(?:\.\d+)*(?![\w.]*\d)"
    ),
    "volume, issue and year of a citation": re.compile(r"\d+\(\d+\), (?:19|20)\d\d\b"),
    "year of a conference": re.compile(r"\b[A-Z][A-Za-z]+ (?:19|20)\d\d\b"),
    "version": re.compile(r"\b\d+\.\d+\.\d+\b"),
    "constant of a formula": re.compile(
        r"(?:[(=+−·/] ?)[0-2](?![\w.,]*\d)|(?<![\d.,])[0-2] ?[(/·]"
    ),
}


class _Prose(HTMLParser):
    """The text of an article, block by block, without elements that are sources of numbers."""

    def __init__(self, page: str, template: bool) -> None:
        super().__init__()
        # open tags, and whether numbers inside them have a source
        self.open: list[tuple[str, bool]] = []
        # In a template, text is prose even inside elements that pages fill with data.
        self.template = template
        self.blocks = [""]
        self.sources: list[Attributes] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        named = {key: value or "" for key, value in attributes}
        if "data-table" in named or "data-file" in named:
            self.sources.append(named)
        if tag in ("p", "li", "h1", "h2", "h3", "h4", "td", "dd", "dt", "div", "summary"):
            self.blocks.append("")
        if tag not in _VOID:
            given = _is_no_prose(tag, named) or (not self.template and _is_given(tag, named))
            self.open.append((tag, given))

    def handle_endtag(self, tag: str) -> None:
        while any(one == tag for one, _ in self.open) and self.open.pop()[0] != tag:
            pass

    def handle_data(self, text: str) -> None:
        inside = self.template or any(tag == "article" for tag, _ in self.open)
        if inside:
            given = any(gives for _, gives in self.open)
            self.blocks[-1] += "…" if given else text


def _is_no_prose(tag: str, named: Attributes) -> bool:
    return tag in _NO_PROSE_TAGS or bool(set(named.get("class", "").split()) & _NO_PROSE)


def _is_given(tag: str, named: Attributes) -> bool:
    """Return whether the numbers inside an element come from what it shows or names."""
    classes = set(named.get("class", "").split())
    return bool(
        tag in _GIVEN_TAGS
        or classes & _GIVEN
        or named.get("id") in _GIVEN_IDS
        or named.keys() & {"data-table", "data-file"}
    )


def typed_numbers(page: str, *, template: bool = False) -> list[str]:
    """Return every number of the article that has no source, with the words around it.

    For a template, whose placeholders are left out, these are all numbers outside of code and
    formulas.
    """
    return [found for block in _Prose(page, template).blocks for found in _in_block(block)]


def sources(page: str) -> list[Attributes]:
    """Return the attributes of elements that name the source of their numbers."""
    return _Prose(page, template=True).sources


def _in_block(block: str) -> Iterator[str]:
    text = " ".join(block.split())
    for pattern in _ALLOWED.values():
        text = pattern.sub("…", text)
    for found in _NUMBER.finditer(text):
        yield text[max(found.start() - 40, 0) : found.end() + 40]

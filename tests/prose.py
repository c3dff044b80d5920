"""Find numbers in the prose of a page that were typed by hand.

A number has a source if it is in `<data>`, in a table, a drawing or code, in the words of a record
or a chart (`_GIVEN`), or in an element that names its source: `data-table` names tables of the
site, and `data-file` names a file that declares the number. All other numbers were typed.
"""

import re
from collections.abc import Iterator
from html.parser import HTMLParser

Attributes = dict[str, str]

_VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source"}
_GIVEN_TAGS = {"data", "table", "select", "figcaption", "code", "pre", "svg", "script", "style"}
# words of charts, records and cells; headings are checked where they stand, not in the contents
_GIVEN = {"nw-data", "nw-facts", "nw-formula", "nw-gaps", "nw-kind", "nw-sub", "nw-toc"}
_GIVEN |= {"failure", "warning"}  # admonitions: reasons that records give

# a number is a whole word: Conv2D, CIFAR-10, Apache-2.0, n=2 and arXiv:1511.05950 contain none
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
    """The text of an article, block by block, without the text inside elements with a source."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[tuple[str, bool]] = []  # tags, and whether numbers inside have a source
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
            self.open.append((tag, _is_given(tag, named)))

    def handle_endtag(self, tag: str) -> None:
        while any(one == tag for one, _ in self.open) and self.open.pop()[0] != tag:
            pass

    def handle_data(self, text: str) -> None:
        if any(tag == "article" for tag, _ in self.open):
            given = any(gives for _, gives in self.open)
            self.blocks[-1] += "…" if given else text


def _is_given(tag: str, named: Attributes) -> bool:
    """Return whether the numbers inside an element have a source."""
    classes = set(named.get("class", "").split())
    sources = named.keys() & {"data-table", "data-file"}
    return bool(tag in _GIVEN_TAGS or classes & _GIVEN or sources)


def typed_numbers(page: str) -> list[str]:
    """Return every number of the article that has no source, with the words around it."""
    return [found for block in _Prose(page).blocks for found in _in_block(block)]


def sources(page: str) -> list[Attributes]:
    """Return the attributes of the elements that name the source of their numbers."""
    return _Prose(page).sources


def _in_block(block: str) -> Iterator[str]:
    text = " ".join(block.split())
    for pattern in _ALLOWED.values():
        text = pattern.sub("…", text)
    for found in _NUMBER.finditer(text):
        yield text[max(found.start() - 40, 0) : found.end() + 40]

"""Render pages of a test's study, as the workflow does."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from nodewise.report.context import read_context
from nodewise.report.render import render_pages

CONFIG = Path("config/study.yaml")


def render(
    folder: Path, out: Path | None = None, site_dir: Path = Path("site"), **inputs: Any
) -> Path:
    """Render the pages of the study in `folder`, and return the folder of the pages.

    The pages are written to `out`, or to `docs` in the study's folder.
    """
    docs = out or folder / "docs"
    render_pages(read_context(CONFIG, folder, **inputs), folder, docs, site_dir=site_dir)
    return docs


def leads(page: Path) -> list[str]:
    """Return the answers with which a page or its parts begin, as plain text."""
    found = re.findall(r'<p class="nw-lead"[^>]*>(.*?)</p>', page.read_text(), flags=re.DOTALL)
    return [" ".join(Texts(answer).plain.split()) for answer in found]


class Texts(HTMLParser):
    """The text and the tags of a piece of HTML; in `plain`, non-breaking spaces are replaced."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text = ""
        self.tags: list[str] = []
        self.feed(html)
        self.close()

    @property
    def plain(self) -> str:
        return self.text.replace("\u00a0", " ")

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

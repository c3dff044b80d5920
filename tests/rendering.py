"""Draw charts and render pages of a study that a test wrote, as the workflow does."""

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from nodewise.report.context import read_context
from nodewise.report.draw import draw_charts
from nodewise.report.render import render_pages

CONFIG = Path("config/study.yaml")


def draw_all(folder: Path, **inputs: Any) -> list[str]:
    """Draw the charts of the study in `folder`; return their names."""
    made = (folder / "tables", folder / "overhead", folder / "charts")
    return draw_charts(*made, config_path=CONFIG, **inputs)


def render(
    folder: Path, out: Path | None = None, site_dir: Path = Path("site"), **inputs: Any
) -> Path:
    """Render the pages of the study in `folder`; return their folder, which is `out` if given."""
    docs = out or folder / "docs"
    render_pages(read_context(CONFIG, folder, **inputs), folder, docs, site_dir=site_dir)
    return docs


class Texts(HTMLParser):
    """The text and the tags of a piece of HTML; `plain` is the text with ordinary spaces."""

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

"""Define what a page of the site consists of, and the addresses of pages and files."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from nodewise.report.html import slug
from nodewise.results.calibration import Calibration

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


def curve_page(model: str, strategy: str) -> str:
    """Return the address of the page of a curve: a model that is trained with a strategy."""
    return f"curves/{slug(model)}/{slug(strategy)}.html"


def results_page(model: str, dataset: str) -> str:
    """Return the address of the page of results of a model on a dataset."""
    return f"results/{slug(dataset)}/{slug(model)}.html"


def model_page(model: str) -> str:
    """Return the address of the page of a model."""
    return f"models/{slug(model)}.html"


def strategy_page(strategy: str) -> str:
    """Return the address of the page of a strategy."""
    return f"strategies/{slug(strategy)}.html"


def calibration_file(calibration: Calibration) -> str:
    """Return the address of a calibration's JSON file."""
    return f"calibration/{slug(calibration.study)}-{slug(calibration.provenance.cpu)}.json"


def record_file(cell_id: str) -> str:
    """Return the address of a cell's record.

    Without its first part, `records/`, it is also the record's path in a folder of records.
    """
    return f"records/{cell_id}.json"

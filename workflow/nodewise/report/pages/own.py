"""How to bring a model and data of one's own: the page shows the templates that are tested."""

from collections.abc import Iterator
from pathlib import Path

from nodewise.core.errors import UserError
from nodewise.data.prepared import MOST_CLASSES, TYPES
from nodewise.report.pages import page
from nodewise.report.study import Page, Study

MODEL = Path("models/templates/own_model.py")
DATA = Path("data/templates/own_data.py")


@page("own")
def pages(study: Study) -> Iterator[Page]:
    """Yield the page; it says the same for every study.

    Raises:
        UserError: a template is missing.
    """
    context = {
        "model": _text(MODEL),
        "data": _text(DATA),
        "model_spec": f"{MODEL}:build",
        "data_spec": f"{DATA}:load",
        "types": TYPES,
        "classes": MOST_CLASSES,
    }
    yield Page("own.html", "own.md.j2", "Bring your own", context)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error

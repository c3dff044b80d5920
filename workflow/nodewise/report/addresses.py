"""Return the addresses of the site's pages and files, relative to its root."""

from nodewise.report.html import slug
from nodewise.results.calibration import Calibration


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

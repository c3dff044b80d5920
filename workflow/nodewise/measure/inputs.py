"""Find the prepared inputs of a cell, and check that its study permits them."""

from pathlib import Path
from typing import TYPE_CHECKING

from nodewise.core.cell import Cell
from nodewise.core.errors import UserError
from nodewise.models.registry import weights_of
from nodewise.study.config import PREPARED, read_config

if TYPE_CHECKING:  # keeps the start of every cell short
    from nodewise.data.manifest import Manifest
    from nodewise.models.weights import Pretrained

WEIGHTS = Path("results/weights")
_AGAIN = "the study permits official data only; snakemake --cores all --forcerun {} looks again"


def data_manifest(cell: Cell) -> Path:
    """Return the path of the manifest of the cell's prepared dataset."""
    return PREPARED / cell.dataset / "manifest.json"


def weights_manifest(cell: Cell) -> Path | None:
    """Return the path of the manifest of the weights that the cell's model starts from, if any."""
    name = weights_of(cell.model)
    return WEIGHTS / name / "manifest.json" if name else None


def checked_inputs(cell: Cell, config: Path | None) -> "tuple[Manifest, Pretrained | None]":
    """Return the data and weights that a cell trains on, if its study permits them.

    They may have been prepared by hand, or for another study.

    Args:
        cell: the cell to be trained.
        config: the study that declares the cell; None without a study.

    Raises:
        UserError: a manifest cannot be read, or what it describes is not permitted.
    """
    from nodewise.data import check_arrays

    data, pretrained = check_arrays(data_manifest(cell)), None
    if weights := weights_manifest(cell):
        from nodewise.models.weights import read_weights

        pretrained = read_weights(weights)
    if config is None or read_config(config).data.source == "any":
        return data, pretrained
    if data.origin == "generated" or data.note:
        what = data.note or "synthetic data"
        raise UserError(f"{data.dataset}: {what}; {_AGAIN.format('prepare_dataset')}")
    if pretrained and pretrained.source.origin == "random":
        name = pretrained.source.name
        raise UserError(f"{name}: random weights; {_AGAIN.format('prepare_weights')}")
    return data, pretrained

"""Check that a cell trains on the inputs that it names and that its study permits."""

from pathlib import Path
from typing import TYPE_CHECKING

from nodewise.core.cell import Cell
from nodewise.core.errors import UserError
from nodewise.models.registry import weights_of
from nodewise.study.config import read_config

if TYPE_CHECKING:  # keeps the start of every cell short
    from nodewise.data.manifest import Manifest
    from nodewise.models.weights import Pretrained

_AGAIN = "the study permits official data only; snakemake --cores all --forcerun {} looks again"


def checked_inputs(
    cell: Cell, manifest: Path, weights: Path | None, config: Path | None
) -> "tuple[Manifest, Pretrained | None]":
    """Return the data and weights that manifests describe, if a study permits them for `cell`.

    They may have been prepared by hand, or for another study.

    Args:
        cell: the cell to be trained.
        manifest: the manifest of the dataset that it would train on.
        weights: the manifest of the pretrained weights that it would start from, if any.
        config: the study that declares the cell; None without a study.

    Raises:
        UserError: a manifest cannot be read, or is not one that the cell and the study permit.
    """
    from nodewise.data import check_arrays

    data, pretrained = check_arrays(manifest), None
    if weights:
        from nodewise.models.weights import read_weights

        pretrained = read_weights(weights)
    if data.dataset != cell.dataset:
        raise UserError(f"{cell.model} trains on {cell.dataset}; the manifest is of {data.dataset}")
    named = weights_of(cell.model)
    given = pretrained.source.name if pretrained else None
    if given != named:
        raise UserError(f"{cell.model} starts from {named or 'no weights'}, not {given or 'none'}")
    if config is None or read_config(config).data.source == "any":
        return data, pretrained
    if data.origin == "generated" or data.note:
        what = data.note or "synthetic data"
        raise UserError(f"{data.dataset}: {what}; {_AGAIN.format('prepare_dataset')}")
    if pretrained and pretrained.source.origin == "random":
        raise UserError(f"{given}: random weights; {_AGAIN.format('prepare_weights')}")
    return data, pretrained

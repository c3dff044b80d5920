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


def check_inputs(
    cell: Cell, data: "Manifest", weights: "Pretrained | None", config: Path | None
) -> None:
    """Check that data and weights are those that `cell` names and that its study permits.

    They may have been prepared by hand, or for another study.

    Args:
        cell: the cell to be trained.
        data: the manifest of the dataset that it would train on.
        weights: the pretrained weights that it would start from, if any.
        config: the study that declares the cell; None without a study.

    Raises:
        UserError: they are not.
    """
    if data.dataset != cell.dataset:
        raise UserError(f"{cell.model} trains on {cell.dataset}; the manifest is of {data.dataset}")
    named = weights_of(cell.model)
    given = weights.source.name if weights else None
    if given != named:
        raise UserError(f"{cell.model} starts from {named or 'no weights'}, not {given or 'none'}")
    if config is None or read_config(config).data.source == "any":
        return
    if data.origin == "generated" or data.note:
        what = data.note or "synthetic data"
        raise UserError(f"{data.dataset}: {what}; {_AGAIN.format('prepare_dataset')}")
    if weights and weights.source.origin == "random":
        raise UserError(f"{given}: random weights; {_AGAIN.format('prepare_weights')}")

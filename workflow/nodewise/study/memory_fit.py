"""Check from model descriptions, before anything starts, whether a cell fits into memory."""

from nodewise.core.cell import Cell
from nodewise.core.units import counted
from nodewise.models.facts import description_of
from nodewise.strategies import STRATEGIES

SHARED_BYTES = 200_000_000
"""Memory of TensorFlow itself. Workers of a machine share it: they are forked from one process."""


def misfit(cell: Cell, free_bytes: int, workers: int) -> str | None:
    """Return in one line why `cell` does not fit into memory; None if it fits or is not known.

    It is not known if the model's memory has not been measured, or if a node has only a part of the
    model.

    Args:
        cell: cell to be measured.
        free_bytes: memory of the machine.
        workers: number of workers of the cell that run on it.
    """
    described = description_of(cell)
    cut = STRATEGIES[cell.strategy].exchange_of(cell.options).splits_model
    if cut or not described or not described.memory:
        return None
    each = described.memory.peak_bytes(cell.global_batch if cell.one_process else cell.batch)
    together = SHARED_BYTES + workers * max(0, each - SHARED_BYTES)
    if together <= free_bytes:
        return None
    on_nodes = f" on each of {counted(workers, 'node')}" if workers > 1 else ""
    return (
        f"batch {cell.batch} of {cell.model} takes about {each / 1e9:.1f} GB{on_nodes}, "
        f"this machine has {free_bytes / 1e9:.1f} GB"
    )

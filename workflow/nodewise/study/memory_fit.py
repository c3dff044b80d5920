"""Does a cell fit the memory of its nodes? Answered from descriptions, before anything starts."""

from nodewise.core.cell import Cell
from nodewise.core.errors import RefusedError
from nodewise.core.units import counted
from nodewise.models.facts import memory_of
from nodewise.strategies import STRATEGIES

SHARED_BYTES = 200_000_000
"""Of TensorFlow itself: workers on one machine are forked from one process and share it."""


def worker_bytes(cell: Cell) -> int | None:
    """Return the memory of a process of `cell` that trains; None if it is not known.

    That is so for a model whose memory nobody has measured, and where a node has only a part of it.
    """
    if STRATEGIES[cell.strategy].exchange_of(cell.options) == "activations":
        return None
    memory = memory_of(cell)
    if memory is None:
        return None
    return memory.peak_bytes(cell.global_batch if cell.one_process else cell.batch)


def misfit(cell: Cell, machine_bytes: int) -> str | None:
    """Return in one line why `cell` does not fit; None if it does, or nobody knows.

    Args:
        cell: to be measured.
        machine_bytes: memory of the machine that all workers run on.
    """
    each = worker_bytes(cell)
    if each is None:
        return None
    together = SHARED_BYTES + cell.workers * max(0, each - SHARED_BYTES)
    if together <= machine_bytes:
        return None
    on_nodes = f" on each of {counted(cell.workers, 'node')}" if cell.workers > 1 else ""
    return (
        f"batch {cell.batch} of {cell.model} takes about {each / 1e9:.1f} GB{on_nodes}, "
        f"this machine has {machine_bytes / 1e9:.1f} GB"
    )


def check_fits(cell: Cell, machine_bytes: int) -> None:
    """Check that `cell` fits the memory of this machine, as far as that is known.

    Raises:
        RefusedError: it does not.
    """
    reason = misfit(cell, machine_bytes)
    if reason:
        raise RefusedError(reason)


def check_host(cell: Cell, free_bytes: int) -> None:
    """Check that a worker of `cell` fits the free memory of its own host.

    Raises:
        RefusedError: it does not.
    """
    each = worker_bytes(cell)
    if each is not None and each > free_bytes:
        raise RefusedError(
            f"batch {cell.batch} of {cell.model} takes about {each / 1e9:.1f} GB, "
            f"{free_bytes / 1e9:.1f} GB of memory are free here"
        )

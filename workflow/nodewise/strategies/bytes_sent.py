"""Formulas of the bytes that a node sends per step, as the mean over the nodes that train."""

from collections.abc import Callable
from dataclasses import dataclass

from nodewise.core.cell import Cell


@dataclass(frozen=True)
class Trained:
    """The inputs of a formula.

    Attributes:
        cell: the measured cell.
        payload_bytes: the size of a gradient, in bytes.
        steps_per_epoch: the number of steps in an epoch of the cell.
    """

    cell: Cell
    payload_bytes: int
    steps_per_epoch: int


BytesSent = Callable[[Trained], float | None]
"""A formula. It returns None if the cell does not contain what the formula needs."""


def nothing(_: Trained) -> float:
    """Return 0: nothing is sent between processes."""
    return 0.0


def unknown(_: Trained) -> None:
    """Return None: no cell contains what the formula needs."""


def ring(trained: Trained) -> float:
    """Return the bytes of a ring all-reduce of the gradient. A star sends as much in total."""
    return 2 * (trained.cell.nodes - 1) / trained.cell.nodes * trained.payload_bytes


def gradient(trained: Trained) -> float:
    """Return the bytes of one gradient. Servers send, too, but do not train."""
    return float(trained.payload_bytes)

"""Formulas of the bytes that a node sends per step, as the mean over the nodes that train."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from nodewise.core.cell import Cell
from nodewise.results.model_description import Layer


@dataclass(frozen=True)
class Trained:
    """The inputs of a formula.

    Attributes:
        cell: the measured cell.
        payload_bytes: the size of a gradient, in bytes.
        steps_per_epoch: the number of steps in an epoch of the cell.
        layers: the layers of its model; empty if they are not known.
    """

    cell: Cell
    payload_bytes: int
    steps_per_epoch: int
    layers: Sequence[Layer] = ()


BytesSent = Callable[[Trained], float | None]
"""A formula. It returns None if the cell does not contain what the formula needs."""


def nothing(_: Trained) -> float:
    """Return 0: nothing is sent between processes."""
    return 0.0


def unknown(_: Trained) -> None:
    """Return None: no cell contains what the formula needs."""


def ring(trained: Trained) -> float:
    """Return the bytes of a ring all-reduce of the gradient. A star sends as much in total."""
    return all_reduced(trained, trained.payload_bytes)


def gradient(trained: Trained) -> float:
    """Return the bytes of one gradient. Servers send, too, but do not train."""
    return float(trained.payload_bytes)


def all_reduced(trained: Trained, payload_bytes: float) -> float:
    """Return the bytes of an all-reduce of `payload_bytes`, in a ring or directly between all."""
    return 2 * (trained.cell.nodes - 1) / trained.cell.nodes * payload_bytes


def dense_layers(layers: Sequence[Layer]) -> Iterator[tuple[Layer, int, int]]:
    """Yield the trainable dense layers on 1-D inputs, with their numbers of inputs and outputs."""
    shapes = {layer.name: layer.output_shape for layer in layers}
    for layer in layers:
        if layer.kind == "Dense" and layer.trainable and len(shapes[layer.inputs[0]]) == 1:
            yield layer, shapes[layer.inputs[0]][0], layer.output_shape[0]

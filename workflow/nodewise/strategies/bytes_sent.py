"""Bytes that a node sends per step by a strategy's formula: the mean over the nodes that train."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from nodewise.core.cell import Cell
from nodewise.results.model_description import Layer


@dataclass(frozen=True)
class Trained:
    """What a formula depends on.

    Attributes:
        cell: the measurement.
        payload_bytes: the bytes of a gradient.
        steps_per_epoch: the steps of an epoch of the cell.
        layers: those of its model; empty if they are not known.
    """

    cell: Cell
    payload_bytes: int
    steps_per_epoch: int
    layers: Sequence[Layer] = ()


BytesSent = Callable[[Trained], float | None]
"""A formula. It returns None if the cell does not tell what the formula needs."""


def nothing(_: Trained) -> float:
    """Return 0: nothing leaves the process."""
    return 0.0


def unknown(_: Trained) -> None:
    """Return None: no cell tells what the formula needs."""


def ring(trained: Trained) -> float:
    """Return what a ring all-reduce of the gradient sends; a star sends as much in all."""
    return all_reduced(trained, trained.payload_bytes)


def gradient(trained: Trained) -> float:
    """Return the bytes of one gradient; servers send, but do not train."""
    return float(trained.payload_bytes)


def all_reduced(trained: Trained, payload_bytes: float) -> float:
    """Return what an all-reduce of `payload_bytes` sends, in a ring or straight between all."""
    return 2 * (trained.cell.nodes - 1) / trained.cell.nodes * payload_bytes


def dense_layers(layers: Sequence[Layer]) -> Iterator[tuple[Layer, int, int]]:
    """Yield the trained dense layers on rows of examples, with their inputs and outputs."""
    shapes = {layer.name: layer.output_shape for layer in layers}
    for layer in layers:
        if layer.kind == "Dense" and layer.trainable and len(shapes[layer.inputs[0]]) == 1:
            yield layer, shapes[layer.inputs[0]][0], layer.output_shape[0]

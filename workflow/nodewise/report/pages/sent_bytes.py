"""Bytes that a node sends per step by a strategy's formula: the mean over the nodes that train."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from nodewise.core.cell import Cell
from nodewise.results.model_description import FLOAT32_BYTES, Layer
from nodewise.strategies.split_dense import fewer_bytes

_BETWEEN_PAIRS = {"Dropout", "BatchNormalization", "ReLU", "LeakyReLU"}


@dataclass(frozen=True)
class Trained:
    """What a formula is asked for: a cell, the bytes of its gradient, the steps of its epoch.

    `layers` are those of its model; empty if they are not known.
    """

    cell: Cell
    payload_bytes: int
    steps_per_epoch: int
    layers: Sequence[Layer] = ()


Sent = Callable[[Trained], float | None]  # None where a cell does not tell


def nothing(_: Trained) -> float:
    """Nothing leaves the process."""
    return 0.0


def unknown(_: Trained) -> None:
    """It depends on the activations where a model is cut, of which a cell says nothing."""


def ring(trained: Trained) -> float:
    """A ring all-reduce of the gradient; a star sends as much in all."""
    return _summed(trained, trained.payload_bytes)


def gradient(trained: Trained) -> float:
    """One gradient; servers send, but do not train."""
    return float(trained.payload_bytes)


def averaged(trained: Trained) -> float | None:
    """A ring all-reduce of the weights once in a period; unknown if of optimizer states, too."""
    options = trained.cell.options
    if options.get("optimizer_state") == "averaged":
        return None
    period = options.get("period")
    steps = trained.steps_per_epoch if period == "epoch" else period
    return ring(trained) / steps if isinstance(steps, int) else None


def compressed(trained: Trained) -> float | None:
    """Half a gradient to each of the others; other methods send as much as is worth sending."""
    if trained.cell.options.get("method") != "float16":
        return None
    return (trained.cell.nodes - 1) * trained.payload_bytes / 2


def split_dense(trained: Trained) -> float | None:
    """Of split layers a worker's inputs and all workers' outputs, of all others the gradient."""
    if not trained.layers:
        return None
    own, nodes = trained.cell.batch, trained.cell.nodes
    sent = trained.payload_bytes
    for _, inputs, outputs in _dense(trained.layers):
        if fewer_bytes(inputs, outputs, own=own, nodes=nodes):
            sent += FLOAT32_BYTES * (own * (inputs + nodes * outputs) - inputs * outputs)
    return _summed(trained, sent)


def tensor_parallel(trained: Trained) -> float | None:
    """Of each pair of dense layers its outputs, and its inputs if anything before it is trained.

    Both of the global batch.
    """
    if not trained.layers:
        return None
    shapes = {layer.name: (inputs, outputs) for layer, inputs, outputs in _dense(trained.layers)}
    sent, before, first = 0, False, None
    for layer in trained.layers:
        if layer.name in shapes and first is not None:
            inputs, _ = shapes[first]
            _, outputs = shapes[layer.name]
            sent += outputs + before * inputs
            first, before = None, True
        elif layer.name in shapes:
            first = layer.name
        elif layer.kind not in _BETWEEN_PAIRS:
            before, first = before or first is not None or layer.trainable > 0, None
    return _summed(trained, FLOAT32_BYTES * trained.cell.global_batch * sent)


def _summed(trained: Trained, payload_bytes: int) -> float:
    """Return what a ring sends of a sum; sums straight between all send as much."""
    return 2 * (trained.cell.nodes - 1) / trained.cell.nodes * payload_bytes


def _dense(layers: Sequence[Layer]) -> Iterator[tuple[Layer, int, int]]:
    """Yield the trained dense layers on rows of examples, with their inputs and outputs."""
    shapes = {layer.name: layer.output_shape for layer in layers}
    for layer in layers:
        if layer.kind == "Dense" and layer.trainable and len(shapes[layer.inputs[0]]) == 1:
            yield layer, shapes[layer.inputs[0]][0], layer.output_shape[0]

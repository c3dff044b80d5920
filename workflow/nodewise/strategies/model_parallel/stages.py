"""Cutting a model into consecutive stages, one for each node of a pipeline.

Imports TensorFlow. A model can be cut where a single tensor passes: behind any layer of a
Sequential model, between the blocks of a residual network, but nowhere inside such a block.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import keras

from nodewise.core.errors import RefusedError, UserError
from nodewise.models.describe import graph_calls, layers_of
from nodewise.strategies.model_parallel.balance import balanced


@dataclass(frozen=True)
class _Piece:
    """What lies between two places to cut: the tensors that pass there, the layers' names."""

    begin: keras.KerasTensor
    end: keras.KerasTensor
    names: list[str]

    def model(self) -> keras.Model:
        return keras.Model(self.begin, self.end)


def cut(model: keras.Model, stages: int) -> list[keras.Model]:
    """Return `stages` models which, one after the other, compute what `model` computes.

    They share its layers. All take about the same number of floating-point operations to train, or,
    if those of a layer cannot be counted, have about the same number of weights.

    Raises:
        RefusedError: the model cannot be cut into so many; the line says into how many it can.
    """
    if not _is_graph(model):
        raise RefusedError(f"{model.name}: is no graph of layers, so it cannot be cut into stages")
    pieces = _pieces(model)
    if len(pieces) < stages:
        raise RefusedError(
            f"{model.name}: can be cut into {len(pieces)} stages at most, where a single tensor of "
            f"float32 passes; not into {stages}"
        )
    places = balanced(
        _costs(model, pieces),
        [math.prod(piece.end.shape[1:]) for piece in pieces],
        stages,
    )
    found = [_joined(pieces[a:b]) for a, b in pairwise((0, *places, len(pieces)))]
    if len({id(one) for one in model.variables}) < sum(len(stage.variables) for stage in found):
        raise RefusedError(f"{model.name}: two stages would share weights")
    return found


def _costs(model: keras.Model, pieces: Sequence[_Piece]) -> list[int]:
    try:
        layers = layers_of(model, model.name)
    except UserError:  # a layer that nobody has described
        return [piece.model().count_params() for piece in pieces]

    def operations(names: Sequence[str]) -> int:
        inside = tuple(f"{name}/" for name in names)
        mine = [one for one in layers if one.name in names or one.name.startswith(inside)]
        return sum(layer.training_flops for layer in mine)

    return [operations(piece.names) for piece in pieces]


def _joined(pieces: Sequence[_Piece]) -> keras.Model:
    start = pieces[0].begin
    begin = keras.Input(start.shape[1:], dtype=start.dtype)
    return keras.Sequential([begin, *(piece.model() for piece in pieces)])


def _pieces(model: keras.Model, prefix: str = "") -> list[_Piece]:
    """Return the pieces of a model of one input and one output, in order.

    Names of its layers begin with `prefix`.
    """
    nodes = [node for node in graph_calls(model) if not node.is_input]
    last_use = {id(one): place for place, node in enumerate(nodes) for one in node.input_tensors}
    last_use |= {id(one): len(nodes) for one in model.outputs}
    pieces: list[_Piece] = []
    begin, since = model.inputs[0], 0
    passing = {id(begin): begin}
    for place, node in enumerate(nodes):
        passing |= {id(one): one for one in node.outputs}
        passing = {key: one for key, one in passing.items() if last_use.get(key, -1) > place}
        if len(passing) == 1:
            (end,) = passing.values()
            if place == len(nodes) - 1 or _can_be_sent(end):
                pieces += _between(begin, end, nodes[since : place + 1], prefix)
                begin, since = end, place + 1
    return pieces


def _between(
    begin: keras.KerasTensor, end: keras.KerasTensor, nodes: Sequence[Any], prefix: str
) -> list[_Piece]:
    """Return the piece of these nodes, or the pieces of the model that the only one of them is.

    Such a model stays whole if it is called in a way of its own, such as with training=False.
    """
    inside, settings = nodes[0].operation, nodes[0].arguments.kwargs.values()
    plain = len(nodes) == 1 and all(value is None for value in settings)
    if plain and _is_graph(inside) and len(inside.inputs) == len(inside.outputs) == 1:
        return _pieces(inside, f"{prefix}{inside.name}/")
    return [_Piece(begin, end, [f"{prefix}{node.operation.name}" for node in nodes])]


def _is_graph(operation: object) -> bool:
    return isinstance(operation, keras.Model) and bool(getattr(operation, "inputs", None))


def _can_be_sent(tensor: keras.KerasTensor) -> bool:
    """Tell whether a tensor is float32, of known size, and without a mask beside it."""
    # private: Keras has no public way to ask for a symbolic tensor's mask
    masked = getattr(tensor, "_keras_mask", None) is not None
    return tensor.dtype == "float32" and None not in tensor.shape[1:] and not masked

"""Cutting a model for several nodes: into stages in a row, or its dense layers into parts.

Imports TensorFlow. A model can be cut into stages where a single tensor passes: behind any layer of
a Sequential model, between the blocks of a residual network, but nowhere inside such a block.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, pairwise
from math import inf
from typing import Any

import keras
import numpy as np
from keras import layers
from numpy.typing import NDArray

from nodewise.core.errors import RefusedError, UserError
from nodewise.models.layers import graph_calls, layers_of

# What works on each unit for itself: between the layers of a pair there may be nothing else.
_ACTIVATIONS = {"linear", "relu", "leaky_relu", "elu", "selu", "gelu", "silu", "tanh", "sigmoid"}
_BETWEEN = (layers.Dropout, layers.BatchNormalization, layers.ReLU, layers.LeakyReLU)


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


def most_stages(model: keras.Model) -> int:
    """Return into how many stages a functional or Sequential model can be cut."""
    return len(_pieces(model))


def _costs(model: keras.Model, pieces: Sequence[_Piece]) -> list[int]:
    try:
        counted = layers_of(model, model.name)
    except UserError:  # a layer that nobody has described
        return [piece.model().count_params() for piece in pieces]

    def operations(names: Sequence[str]) -> int:
        inside = tuple(f"{name}/" for name in names)
        mine = [one for one in counted if one.name in names or one.name.startswith(inside)]
        return sum(one.training_flops for one in mine)

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


def balanced(costs: Sequence[int], crossing: Sequence[int], stages: int) -> tuple[int, ...]:
    """Return where to cut a chain of pieces, so that its dearest stage is as cheap as can be.

    Args:
        costs: of each piece.
        crossing: what has to be sent when the chain is cut behind a piece. Of the cuts that are
            equally good for the dearest stage, the ones with the least to send are taken.
        stages: from 1 to the number of pieces; each gets one piece at least.

    Returns:
        The first pieces of the second stage, the third, and so on.
    """
    until = [0, *accumulate(costs)]

    def cost(first: int, end: int) -> int:
        return until[end] - until[first]

    def places(first: int, left: int) -> range:
        return range(first + 1, len(costs) - left + 2)

    @cache
    def dearest(first: int, left: int) -> int:
        """Return the cost of the dearest of the `left` stages from piece `first` on."""
        if left == 1:
            return cost(first, len(costs))
        return min(max(cost(first, at), dearest(at, left - 1)) for at in places(first, left))

    most = dearest(0, stages)

    @cache
    def least_sent(first: int, left: int) -> tuple[float, tuple[int, ...]]:
        """Return what the `left` stages from piece `first` on send, and where to cut for it."""
        if left == 1:
            return (0 if cost(first, len(costs)) <= most else inf), ()
        found: list[tuple[float, tuple[int, ...]]] = []
        for at in places(first, left):
            if cost(first, at) <= most:
                sent, later = least_sent(at, left - 1)
                found.append((crossing[at - 1] + sent, (at, *later)))
        return min(found, default=(inf, ()))

    return least_sent(0, stages)[1]


def pairs(model: keras.Model) -> list[tuple[layers.Dense, layers.Dense]]:
    """Return the trained dense layers of which one follows the other; each is in one pair only.

    Raises:
        RefusedError: there are none, or the model is not a Sequential one.
    """
    if not isinstance(model, keras.Sequential):
        raise RefusedError(
            f"{model.name}: must be a Sequential model to be split within its layers"
        )
    found: list[tuple[layers.Dense, layers.Dense]] = []
    first: layers.Dense | None = None
    for layer in model.layers:
        # a subclass, or a layer with LoRA, may make something else of its inputs
        plain = type(layer) is layers.Dense and not layer.lora_enabled
        if plain and layer.trainable:
            if first is not None:
                found.append((first, layer))
                first = None
            else:
                name = keras.activations.serialize(layer.activation)
                by_unit = isinstance(name, str) and name in _ACTIVATIONS
                first = layer if by_unit else None
        elif type(layer) not in _BETWEEN:
            first = None
    if not found:
        raise RefusedError(f"{model.name}: has no two dense layers in a row that could be split")
    return found


def widened(model: keras.Model, nodes: int) -> keras.Model:
    """Return `model`, or if need be a wider one, whose pairs can be split evenly over `nodes`.

    The first layer of a pair gets units that are not there in `model`. With weights of 0 they
    change nothing.

    Raises:
        RefusedError: nothing of the model can be split.
    """
    units = {first.name: math.ceil(first.units / nodes) * nodes for first, _ in pairs(model)}
    if all(units[first.name] == first.units for first, _ in pairs(model)):
        return model

    def copied(layer: keras.Layer) -> keras.Layer:
        config = layer.get_config()
        if layer.name in units:
            config["units"] = units[layer.name]
        return type(layer).from_config(config)

    return keras.models.clone_model(model, clone_function=copied)


def padded(values: NDArray[np.generic], shape: Sequence[int]) -> NDArray[np.generic]:
    """Return `values` filled up with 0 at the end of each axis to `shape`."""
    ends = [(0, wanted - got) for wanted, got in zip(shape, values.shape, strict=True)]
    return np.pad(values, ends)

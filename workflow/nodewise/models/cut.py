"""Split a model into consecutive stages, one for each node.

Imports TensorFlow. A model can be cut into stages where a single tensor passes: after any layer of
a Sequential model, and between the blocks of a residual network, but not inside such a block.
"""

import math
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import keras
import tensorflow as tf

from nodewise.core.errors import RefusedError
from nodewise.core.units import counted
from nodewise.models.contents import graph_calls
from nodewise.models.graph_flops import count_training


def cut(model: keras.Model, stages: int) -> list[keras.Model]:
    """Return `stages` models that, run one after the other, compute the same as `model`.

    They share its layers. All need about the same number of floating-point operations in training.

    Raises:
        RefusedError: the model cannot be cut into so many; the text says how many are possible.
    """
    if not _is_graph(model):
        raise RefusedError(f"{model.name}: is no graph of layers, so it cannot be cut into stages")
    pieces = pieces_of(model)
    if len(pieces) < stages:
        raise RefusedError(
            f"{model.name}: can be cut into {counted(len(pieces), 'stage')} at most, where a "
            f"single tensor of float32 passes; not into {stages}"
        )
    costs: list[int] = []  # the operations of each piece when one example is trained
    reached = False  # whether the gradient is propagated back through a piece
    for piece in pieces:
        (x,), weights = piece.inputs, piece.trainable_weights
        spec = tf.TensorSpec((1, *x.shape[1:]), x.dtype)
        costs.append(round(count_training(piece, [spec], weights, reached=reached).flops))
        reached = reached or bool(weights)
    places = balanced(costs, [math.prod(one.output_shape[1:]) for one in pieces], stages)
    found = []
    for first, end in pairwise((0, *places, len(pieces))):
        (start,) = pieces[first].inputs
        begin = keras.Input(start.shape[1:], dtype=start.dtype)
        found.append(keras.Sequential([begin, *pieces[first:end]]))
    if len({id(one) for one in model.variables}) < sum(len(stage.variables) for stage in found):
        raise RefusedError(f"{model.name}: two stages would share weights")
    return found


def pieces_of(model: keras.Model) -> list[keras.Model]:
    """Return the parts of a functional or Sequential model between all places to cut, in order.

    Their number is the largest number of stages.
    """
    nodes = [node for node in graph_calls(model) if not node.is_input]
    last_use = {id(one): place for place, node in enumerate(nodes) for one in node.input_tensors}
    last_use |= {id(one): len(nodes) for one in model.outputs}
    pieces: list[keras.Model] = []
    begin, since = model.inputs[0], 0
    passing = {id(begin): begin}
    for place, node in enumerate(nodes):
        passing |= {id(one): one for one in node.outputs}
        passing = {key: one for key, one in passing.items() if last_use.get(key, -1) > place}
        if len(passing) == 1:
            (end,) = passing.values()
            if place == len(nodes) - 1 or _can_be_sent(end):
                inside = _inner_model(nodes[since : place + 1])
                pieces += pieces_of(inside) if inside else [keras.Model(begin, end)]
                begin, since = end, place + 1
    return pieces


def _inner_model(nodes: Sequence[Any]) -> keras.Model | None:
    """Return the inner model that `nodes` consist of, if it can be cut itself.

    An inner model stays whole if it is called with arguments of its own, such as training=False.
    """
    inside, settings = nodes[0].operation, nodes[0].arguments.kwargs.values()
    plain = len(nodes) == 1 and all(value is None for value in settings)
    chain = _is_graph(inside) and len(inside.inputs) == len(inside.outputs) == 1
    return inside if plain and chain else None


def _is_graph(operation: object) -> bool:
    return isinstance(operation, keras.Model) and bool(getattr(operation, "inputs", None))


def _can_be_sent(tensor: keras.KerasTensor) -> bool:
    """Return whether a tensor is float32, has a known size and has no mask."""
    # private: Keras has no public way to get a symbolic tensor's mask
    masked = getattr(tensor, "_keras_mask", None) is not None
    return tensor.dtype == "float32" and None not in tensor.shape[1:] and not masked


def balanced(costs: Sequence[int], crossing: Sequence[int], stages: int) -> tuple[int, ...]:
    """Return where to cut a chain of pieces so that its costliest stage is as cheap as possible.

    Args:
        costs: the cost of each piece.
        crossing: the amount to send if the chain is cut after a piece. Among equally cheap cuts of
            the remaining pieces, those with less to send are chosen.
        stages: the number of stages, from 1 to the number of pieces; each gets at least one piece.

    Returns:
        The first pieces of the second stage, the third, and so on.
    """

    @cache
    def best(first: int, left: int) -> tuple[int, int, tuple[int, ...]]:
        """Return the costliest of the `left` stages from piece `first` on, what is sent, cuts."""
        if left == 1:
            return sum(costs[first:]), 0, ()
        found = []
        for at in range(first + 1, len(costs) - left + 2):
            costliest, sent, later = best(at, left - 1)
            costliest = max(sum(costs[first:at]), costliest)
            found.append((costliest, crossing[at - 1] + sent, (at, *later)))
        return min(found)

    return best(0, stages)[2]

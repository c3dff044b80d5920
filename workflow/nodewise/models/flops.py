"""Count the floating-point operations of a layer from its configuration and shapes.

A multiply-add is 2 operations. Matrix products, convolutions and attention are counted exactly. In
element-wise computations each operation counts as one, even a whole activation function, because
they are small beside the products. This module does not need Keras: a configuration is the result
of `get_config`.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Shape = Sequence[int]  # the shape for one example
Config = Mapping[str, Any]

SOFTMAX = 5  # maximum, difference, exponential, sum, quotient
BATCH_NORM = 2  # scale and offset: a channel's four parameters can be combined into these two
LAYER_NORM = 8  # mean, difference, square, mean, root and its product, scale, offset
RESCALING = 2


@dataclass(frozen=True)
class Part:
    """One part of the forward pass of a layer, for one example.

    Attributes:
        flops: its operations.
        weighted: whether it uses weights, whose gradient takes as many operations again.
        operands: the number of activations that it multiplies or maps. The gradient of each takes
            as many operations again. It is 0 for a sum, which passes its gradient on.
    """

    flops: int
    weighted: bool = False
    operands: int = 1


def forward_flops(parts: Iterable[Part]) -> int:
    """Return the operations of a forward pass."""
    return sum(part.flops for part in parts)


def training_flops(parts: Iterable[Part], *, trained: bool, reached: bool) -> int:
    """Return the operations of a training step for one example, excluding the optimizer's.

    Args:
        parts: the parts of the forward pass, in order.
        trained: whether the layer's weights are trained, not frozen.
        reached: whether a trained layer lies before this one, so that the gradient must pass
            through.
    """
    total = 0
    for part in parts:
        trains = trained and part.weighted
        total += part.flops * (1 + trains + (part.operands if reached else 0))
        reached = reached or trains
    return total


def parts_of(kind: str, config: Config, inputs: Sequence[Shape], output: Shape) -> list[Part]:
    """Return the parts of the forward pass of a layer of this kind (its class name).

    Raises:
        KeyError: the kind is not known.
        ValueError: the kind is known, but not this use of it.
    """
    return _COUNTS[kind](config, inputs, output)


def _nothing(config: Config, inputs: Sequence[Shape], output: Shape) -> list[Part]:
    return []


def _each_output(operations: int, *, weighted: bool = False) -> "Count":
    def count(config: Config, inputs: Sequence[Shape], output: Shape) -> list[Part]:
        return [Part(operations * math.prod(output), weighted)]

    return count


def _each_input(config: Config, inputs: Sequence[Shape], output: Shape) -> list[Part]:
    return [Part(math.prod(inputs[0]))]


def _sum(config: Config, inputs: Sequence[Shape], output: Shape) -> list[Part]:
    return [Part((len(inputs) - 1) * math.prod(output), operands=0)]


def _product(config: Config, inputs: Sequence[Shape], output: Shape) -> list[Part]:
    return [Part((len(inputs) - 1) * math.prod(output), operands=len(inputs))]


def _pooling(config: Config, inputs: Sequence[Shape], output: Shape) -> list[Part]:
    return [Part(math.prod(config["pool_size"]) * math.prod(output))]


def _activation(config: Config, inputs: Sequence[Shape], output: Shape) -> list[Part]:
    name = config["activation"]
    if name in (None, "linear"):
        return []
    return [Part((SOFTMAX if name == "softmax" else 1) * math.prod(output))]


def _convolution(config: Config, inputs: Sequence[Shape], output: Shape) -> list[Part]:
    if config["data_format"] != "channels_last":
        raise ValueError("only channels_last is counted")
    channels = inputs[0][-1] // config["groups"]
    each = 2 * math.prod(config["kernel_size"]) * channels + config["use_bias"]
    return [
        Part(each * math.prod(output), weighted=True),
        *_activation(config, inputs, output),
    ]


def _dense(config: Config, inputs: Sequence[Shape], output: Shape) -> list[Part]:
    each = 2 * inputs[0][-1] + config["use_bias"]
    return [
        Part(each * math.prod(output), weighted=True),
        *_activation(config, inputs, output),
    ]


def _attention(config: Config, inputs: Sequence[Shape], output: Shape) -> list[Part]:
    """Count projections, scores, softmax, weighted sums, and the projection of the result.

    Inputs are the query, the value and, if it differs from the value, the key, each of shape
    (positions, width).
    """
    if any(len(shape) != 2 for shape in (*inputs, output)):
        raise ValueError("attention is counted over one axis of positions only")
    query, value = inputs[:2]
    key = inputs[2] if len(inputs) > 2 else value
    of_keys = config["num_heads"] * config["key_dim"]
    of_values = config["num_heads"] * (config["value_dim"] or config["key_dim"])
    pairs, bias = query[0] * key[0], int(config["use_bias"])

    def projection(shape: Shape, to: int) -> int:
        positions, width = shape
        return positions * to * (2 * width + bias)

    projections = (
        projection(query, of_keys) + projection(key, of_keys) + projection(value, of_values)
    )
    return [
        Part(projections, weighted=True),
        Part(query[0] * of_keys),  # division by the square root of the width
        Part(2 * pairs * of_keys, operands=2),
        Part(SOFTMAX * pairs * config["num_heads"]),
        Part(2 * pairs * of_values, operands=2),
        Part(projection((query[0], of_values), output[-1]), weighted=True),
    ]


Count = Callable[[Config, Sequence[Shape], Shape], list[Part]]

_FREE = (
    *("InputLayer", "Cast", "Concatenate", "Embedding", "ExpandDims", "Flatten", "GetItem"),
    *("Dropout", "Permute", "Reshape", "ZeroPadding2D"),  # dropout does nothing at inference
)
_COUNTS: dict[str, Count] = {
    **dict.fromkeys(_FREE, _nothing),
    "Activation": _activation,
    "Add": _sum,
    "AveragePooling2D": _pooling,
    "BatchNormalization": _each_output(BATCH_NORM, weighted=True),
    "Conv2D": _convolution,
    "Dense": _dense,
    "GlobalAveragePooling2D": _each_input,
    "GlobalMaxPooling2D": _each_input,
    "LayerNormalization": _each_output(LAYER_NORM, weighted=True),
    "MaxPooling2D": _pooling,
    "MultiHeadAttention": _attention,
    "Multiply": _product,
    "ReLU": _each_output(1),
    "Rescaling": _each_output(RESCALING),
    "Softmax": _each_output(SOFTMAX),
}
KINDS = tuple(sorted(_COUNTS))

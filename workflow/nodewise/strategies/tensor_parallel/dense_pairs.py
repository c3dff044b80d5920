"""Pairs of dense layers in a row, which can be split over nodes, and models widened for that.

Imports TensorFlow.
"""

import math
from collections.abc import Sequence

import keras
import numpy as np
from keras import layers
from numpy.typing import NDArray

from nodewise.core.errors import RefusedError

# What works on each unit for itself: between the layers of a pair there may be nothing else.
_ACTIVATIONS = {"linear", "relu", "leaky_relu", "elu", "selu", "gelu", "silu", "tanh", "sigmoid"}
_BETWEEN = (layers.Dropout, layers.BatchNormalization, layers.ReLU, layers.LeakyReLU)


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

"""A model file -> its description, which `nodewise describe-model` writes.

Imports TensorFlow: the model is built, and nothing is computed with it.
"""

import inspect

import keras

from nodewise.core.errors import RefusedError
from nodewise.models import registry
from nodewise.models.cut import most_stages, pairs
from nodewise.models.layers import layers_of
from nodewise.results.model_description import FLOAT32_BYTES, Architecture


def describe(name: str) -> Architecture:
    """Return the architecture of a model of the registry.

    Raises:
        UserError: its operations cannot be counted.
    """
    module = registry.load(name)
    return architecture_of(module.build(), name, about(module.__doc__ or ""))


def about(docstring: str) -> list[str]:
    """Return the paragraphs of a docstring, each on one line."""
    paragraphs = inspect.cleandoc(docstring).split("\n\n")
    return [" ".join(paragraph.split()) for paragraph in paragraphs]


def architecture_of(model: keras.Model, name: str, about: list[str]) -> Architecture:
    """Return the architecture of a functional or Sequential model of one input.

    Raises:
        UserError: its operations cannot be counted.
    """
    layers = layers_of(model, name)
    trainable = sum(layer.trainable for layer in layers)
    return Architecture(
        model=name,
        about=about,
        input_shape=list(model.input_shape[1:]),
        layers=layers,
        trainable=trainable,
        total=sum(layer.parameters for layer in layers),
        payload_bytes=FLOAT32_BYTES * trainable,
        flops_per_example=sum(layer.flops for layer in layers),
        training_flops_per_example=sum(layer.training_flops for layer in layers),
        stages=most_stages(model),
        dense_pairs=_dense_pairs(model),
    )


def _dense_pairs(model: keras.Model) -> int:
    try:
        return len(pairs(model))
    except RefusedError:
        return 0

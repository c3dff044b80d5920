"""Make descriptions of models for tests, without TensorFlow."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from nodewise.core.files import write_text
from nodewise.core.schema import json_text
from nodewise.models.facts import facts
from nodewise.results.model_description import Architecture, Layer


def layer(
    name: str,
    kind: str,
    shape: Sequence[int],
    inputs: Sequence[str] = (),
    *,
    detail: str = "",
    parameters: int = 0,
    trainable: int = 0,
    operations: int = 0,
) -> Layer:
    """Return a layer.

    `operations` (FLOP) are those of a forward pass. Training takes three times as many if the layer
    has trainable parameters.
    """
    return Layer(
        name=name,
        kind=kind,
        detail=detail,
        inputs=list(inputs),
        output_shape=list(shape),
        parameters=parameters,
        trainable=trainable,
        flops=operations,
        training_flops=operations * (3 if trainable else 1),
    )


def architecture(model: str, layers: Sequence[Layer], about: Sequence[str] = ("A model.",)):
    """Return the description of a model with these layers; its totals are their sums."""
    trainable = sum(one.trainable for one in layers)
    return Architecture(
        model=model,
        about=list(about),
        input_shape=layers[0].output_shape,
        layers=list(layers),
        trainable=trainable,
        total=sum(one.parameters for one in layers),
        payload_bytes=4 * trainable,
        flops_per_example=sum(one.flops for one in layers),
        training_flops_per_example=sum(one.training_flops for one in layers),
        stages=len(layers),
    )


def chain(*layers: Layer) -> list[Layer]:
    """Return the layers, with the input of each set to the one before it."""
    named = [one.model_copy(update={"inputs": [before.name]}) for before, one in pairwise(layers)]
    return [layers[0], *named]


def fashion_cnn() -> Architecture:
    """Return the description of `models/fashion_cnn.py`, with a text that must be escaped."""
    about = ["The Fashion-MNIST network.", "One convolution and <b>two</b> dense layers."]
    return facts("fashion_cnn").model_copy(update={"about": about})


def write(described: Sequence[Architecture], folder: Path) -> Path:
    """Write each description to `folder/<model>.json`, and return the folder."""
    for one in described:
        write_text(folder / f"{one.model}.json", json_text(one))
    return folder

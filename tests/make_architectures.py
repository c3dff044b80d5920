"""Synthetic descriptions of models for tests of the reporting rooms, made without TensorFlow."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from nodewise.core.files import write_text
from nodewise.models import flops
from nodewise.results.model_description import Architecture, Layer, architecture_json


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
    """Return a layer; of a trained one a training step takes three times a forward pass."""
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
    """Return the description whose totals are those of `layers`."""
    trainable = sum(one.trainable for one in layers)
    return Architecture(
        model=model,
        about=list(about),
        input_shape=layers[0].output_shape,
        layers=list(layers),
        trainable=trainable,
        total=sum(one.parameters for one in layers),
        payload_bytes=4 * trainable,
        flops_per_example=flops_of(layers),
        training_flops_per_example=sum(one.training_flops for one in layers),
    )


def flops_of(layers: Sequence[Layer]) -> int:
    return sum(one.flops for one in layers)


def chain(*layers: Layer) -> list[Layer]:
    """Return the layers, each computed on the one before it."""
    named = [one.model_copy(update={"inputs": [before.name]}) for before, one in pairwise(layers)]
    return [layers[0], *named]


def fashion_cnn() -> Architecture:
    """Return the description of `models/fashion_cnn.py`, counted as `describe-model` does."""

    def weighted(
        name: str,
        kind: str,
        config: dict,
        seen: Sequence[int],
        shape: Sequence[int],
        detail: str,
        parameters: int,
        reached: bool,
    ) -> Layer:
        parts = flops.parts_of(kind, config, [seen], shape)
        return Layer(
            name=name,
            kind=kind,
            detail=detail,
            inputs=[],
            output_shape=list(shape),
            parameters=parameters,
            trainable=parameters,
            flops=flops.forward_flops(parts),
            training_flops=flops.training_flops(parts, trained=True, reached=reached),
        )

    dense = {"use_bias": True, "activation": "relu"}
    convolution = dense | {"groups": 1, "kernel_size": (3, 3), "data_format": "channels_last"}
    pooled = 2 * 2 * 14 * 14 * 64
    layers = chain(
        layer("input", "InputLayer", (28, 28, 1)),
        layer("rescaling", "Rescaling", (28, 28, 1), operations=2 * 28 * 28),
        weighted(
            "conv2d",
            "Conv2D",
            convolution,
            (28, 28, 1),
            (28, 28, 64),
            "3×3, 64 filters, relu",
            640,
            False,
        ),
        layer(
            "max_pooling2d", "MaxPooling2D", (14, 14, 64), detail="2×2", operations=pooled
        ).model_copy(update={"training_flops": 2 * pooled}),
        layer("flatten", "Flatten", (14 * 14 * 64,)),
        weighted("dense", "Dense", dense, (12544,), (100,), "100 units, relu", 1_254_500, True),
        weighted(
            "dense_1",
            "Dense",
            dense | {"activation": "linear"},
            (100,),
            (10,),
            "10 units",
            1010,
            True,
        ),
    )
    about = ["The Fashion-MNIST network.", "One convolution and <b>two</b> dense layers."]
    return architecture("fashion_cnn", layers, about)


def write(described: Sequence[Architecture], folder: Path) -> Path:
    """Write each description as `folder/<model>.json`; return the folder."""
    for one in described:
        write_text(folder / f"{one.model}.json", architecture_json(one))
    return folder

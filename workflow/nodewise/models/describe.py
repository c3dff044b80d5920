"""Create the description of a model, which `nodewise describe-model` writes.

Imports TensorFlow: the model is built, but nothing is computed with it.
"""

import inspect
import math
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from nodewise.core.errors import UserError
from nodewise.models import registry
from nodewise.models.contents import make_all_variables
from nodewise.models.cut import most_stages
from nodewise.models.graph_flops import count_model
from nodewise.models.layers import layers_of
from nodewise.results.model_description import FLOAT32_BYTES, Architecture, Layer

COUNTED_BATCHES = (8, 16)
"""Two batch sizes: operations that grow from one to the other belong to the examples."""


def describe(name: str) -> Architecture:
    """Return the description of a model in the registry."""
    module = registry.load(name)
    model = module.build()
    batches = [zeros_spec(model, examples) for examples in COUNTED_BATCHES]
    return architecture_of(model, name, about(module.__doc__ or ""), batches)


def zeros_spec(model: keras.Model, examples: int) -> tuple[tf.TensorSpec, tf.TensorSpec]:
    """Return the spec of a batch for a model in the registry: one input and a label per example."""
    (x,) = model.inputs
    return tf.TensorSpec((examples, *x.shape[1:]), x.dtype), tf.TensorSpec((examples,), tf.uint8)


def about(docstring: str) -> list[str]:
    """Return the paragraphs of a docstring, each on one line."""
    paragraphs = inspect.cleandoc(docstring).split("\n\n")
    return [" ".join(paragraph.split()) for paragraph in paragraphs]


def architecture_of(
    model: keras.Model, name: str, about: list[str], batches: Sequence[Any] = ()
) -> Architecture:
    """Return the description of a compiled model.

    If the model is functional or Sequential, has one input and trains with Keras' own `train_step`,
    its layers are described. Any other model is described as a single layer, whose operations are
    counted in its traced graph.

    Args:
        model: the compiled model.
        name: its name in the description.
        about: paragraphs about the model.
        batches: the specs of two batches of different sizes, as `train_step` takes them.

    Raises:
        UserError: no layer is trained, or the batch size is fixed; or the model is not a list of
            layers, and there are no `batches`.
    """
    _refuse_fixed_batch(model, name)
    try:
        layers = layers_of(model, name) if _trains_its_layers(model) else []
    except (UserError, KeyError, TypeError, ValueError):
        if not batches:
            raise
        layers = []
    in_a_row = bool(layers)
    if not in_a_row:
        layers = [_whole(model, batches)]
    trainable = sum(layer.trainable for layer in layers)
    if not trainable:
        raise UserError(f"{name}: no layer is trained")
    stages = most_stages(model) if in_a_row and len(model.outputs) == 1 else 1
    return Architecture(
        model=name,
        about=about,
        input_shape=list(model.input_shape[1:]) if in_a_row else [],
        layers=layers,
        trainable=trainable,
        total=sum(layer.parameters for layer in layers),
        payload_bytes=FLOAT32_BYTES * trainable,
        flops_per_example=sum(layer.flops for layer in layers),
        training_flops_per_example=sum(layer.training_flops for layer in layers),
        stages=stages,
    )


def _refuse_fixed_batch(model: keras.Model, name: str) -> None:
    for one in getattr(model, "inputs", None) or []:
        if one.shape[0] is not None:
            raise UserError(
                f"{name}: its batch size is fixed to {one.shape[0]}, and batches of several sizes "
                "are needed to describe it; give its keras.Input no batch size"
            )


def _trains_its_layers(model: keras.Model) -> bool:
    inputs = getattr(model, "inputs", None) or []
    as_keras = type(model).train_step is keras.Model.train_step
    return as_keras and len(inputs) == 1 and None not in inputs[0].shape[1:]


def _whole(model: keras.Model, batches: Sequence[Any]) -> Layer:
    """Describe a model as a single layer."""
    make_all_variables(model, batches[0])
    forward, training, uncounted = count_model(model, batches)
    weights = {id(one): one for one in model.weights}
    return Layer(
        name=model.name,
        kind=type(model).__name__,
        detail="",
        inputs=[],
        output_shape=[],
        parameters=sum(math.prod(one.shape) for one in weights.values()),
        trainable=sum(math.prod(one.shape) for one in model.trainable_variables),
        flops=forward,
        training_flops=training,
        uncounted=sorted(uncounted),
    )

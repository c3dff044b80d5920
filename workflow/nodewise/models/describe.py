"""Create the description of a model, which `nodewise describe-model` writes.

Imports TensorFlow: the model is built, but nothing is computed with it.
"""

import inspect
import math
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf
from keras import layers as kinds

from nodewise.core.errors import UserError
from nodewise.models import registry
from nodewise.models.contents import graph_calls, traced
from nodewise.models.cut import pieces_of
from nodewise.models.graph_flops import Count, count_call, count_model
from nodewise.results.model_description import FLOAT32_BYTES, Architecture, Layer

COUNTED_BATCHES = (8, 16)
"""Two batch sizes: operations that grow from one to the other belong to the examples."""


def describe(name: str) -> Architecture:
    """Return the description of a model in the registry."""
    module = registry.load(name)
    model = module.build()
    batches = [zeros_spec(model, examples) for examples in COUNTED_BATCHES]
    paragraphs = inspect.cleandoc(module.__doc__ or "").split("\n\n")
    about = [" ".join(paragraph.split()) for paragraph in paragraphs]
    return architecture_of(model, name, about, batches)


def zeros_spec(model: keras.Model, examples: int) -> tuple[tf.TensorSpec, tf.TensorSpec]:
    """Return the spec of a batch for a model in the registry: one input and a label per example."""
    (x,) = model.inputs
    return tf.TensorSpec((examples, *x.shape[1:]), x.dtype), tf.TensorSpec((examples,), tf.uint8)


def architecture_of(
    model: keras.Model, name: str, about: list[str], batches: Sequence[Any]
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
        UserError: no layer is trained, or the batch size is fixed.
    """
    inputs = getattr(model, "inputs", None) or []
    for one in inputs:
        if one.shape[0] is not None:
            raise UserError(
                f"{name}: its batch size is fixed to {one.shape[0]}, and batches of several sizes "
                "are needed to describe it; give its keras.Input no batch size"
            )
    one_input = len(inputs) == 1 and None not in inputs[0].shape[1:]
    as_keras = type(model).train_step is keras.Model.train_step
    try:
        layers = layers_of(model) if one_input and as_keras else []
    except (KeyError, TypeError, ValueError):
        layers = []
    in_a_row = bool(layers)
    if not in_a_row:
        traced(model.train_step, batches[0])
        trained = _size(model, "trainable_variables")
        layers = [_layer(model, model.name, trained, *count_model(model, batches))]
    trainable = sum(layer.trainable for layer in layers)
    if not trainable:
        raise UserError(f"{name}: no layer is trained")
    stages = len(pieces_of(model)) if in_a_row and len(model.outputs) == 1 else 1
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


def _layer(
    layer: Any,  # noqa: ANN401
    name: str,
    trainable: int,
    forward: Count,
    training: Count,
    **more: Any,  # noqa: ANN401
) -> Layer:
    """Return the description of a layer whose operations are counted; `more` are other fields."""
    return Layer(
        name=name,
        kind=type(layer).__name__,
        parameters=_size(layer, "weights"),
        trainable=trainable,
        flops=round(forward.flops),
        training_flops=round(training.flops),
        uncounted=sorted(forward.uncounted | training.uncounted),
        **{"detail": "", "inputs": [], "output_shape": []} | more,
    )


def layers_of(model: keras.Model) -> list[Layer]:
    """Return the layers of a model and of its inner models, in an order in which they are computed.

    Raises:
        ValueError: the model is not a graph of layers that are each used once, with known sizes.
    """
    layers: list[Layer] = []
    reached: dict[str, bool] = {}  # whether the gradient is propagated back through a layer
    for name, call, inputs in _calls(model, "", {}):
        layer, output = call.operation, call.outputs[0]
        shape, trainable = list(output.shape[1:]), _size(layer, "trainable_weights")
        if None in shape:
            raise ValueError(f"{name}: the size of its output is not known")
        before = any(reached[source] for source in inputs)
        reached[name] = before or trainable > 0
        forward = training = Count()
        # token ids and masks need no FLOPs
        if inputs and keras.backend.is_float_dtype(output.dtype):
            forward, training = count_call(
                layer, call.arguments, trained=trainable > 0, reached=before
            )
        about = {"detail": _detail(layer), "inputs": inputs, "output_shape": shape}
        layers.append(_layer(layer, name, trainable, forward, training, **about))
    return layers


def _size(layer: Any, weights: str) -> int:  # noqa: ANN401
    """Return the number of entries in all variables that the attribute `weights` of a layer has."""
    return sum(math.prod(one.shape) for one in getattr(layer, weights, []))


def _calls(
    model: keras.Model, prefix: str, made_by: dict[int, str]
) -> Iterator[tuple[str, Any, list[str]]]:
    """Yield the calls of a model in order; inner models are replaced by their own calls.

    Args:
        model: the model.
        prefix: what names of calls begin with.
        made_by: the name of the call that made a tensor, by the tensor's `id`. It is extended. For
            an inner model it starts with that model's inputs.

    Yields:
        The name of a call, the call, and the names of the calls whose outputs it takes, without
        masks, which only say what to leave out.
    """
    for node in graph_calls(model):
        operation, name = node.operation, f"{prefix}{node.operation.name}"
        if id(node.outputs[0]) in made_by:
            continue  # an input of an inner model
        if name in made_by.values():
            raise ValueError(f"{name}: is used more than once")
        if isinstance(operation, keras.Model) and getattr(operation, "inputs", None):
            for inside, outside in zip(operation.inputs, node.input_tensors, strict=True):
                made_by[id(inside)] = made_by[id(outside)]
            yield from _calls(operation, f"{name}/", made_by)
            for inside, outside in zip(operation.outputs, node.outputs, strict=True):
                made_by[id(outside)] = made_by[id(inside)]
            continue
        made_by |= {id(tensor): name for tensor in node.outputs}
        given = node.arguments
        values = [value for key, value in given.kwargs.items() if not key.endswith("mask")]
        flat = keras.tree.flatten([*given.args, *values])
        tensors = [one for one in flat if isinstance(one, keras.KerasTensor)]
        yield name, node, list(dict.fromkeys(made_by[id(tensor)] for tensor in tensors))


def _detail(layer: Any) -> str:  # noqa: ANN401
    """Return the settings that characterise a layer, as text; empty if there are none."""
    match layer:
        case kinds.Dropout():
            settings = [f"{layer.rate:g}"]
        case kinds.Embedding():
            settings = [f"{layer.input_dim:,} entries of {layer.output_dim}"]
        case kinds.MultiHeadAttention():
            settings = [f"{layer.num_heads} heads of {layer.key_dim}"]
        case kinds.MaxPooling2D() | kinds.AveragePooling2D():
            settings = ["×".join(map(str, layer.pool_size))]
        case kinds.Conv2D():
            settings = ["×".join(map(str, layer.kernel_size)), f"{layer.filters} filters"]
            if max(layer.strides) > 1:
                settings.append(f"stride {max(layer.strides)}")
        case kinds.Dense():
            settings = [f"{layer.units} units"]
        case kinds.Activation():
            settings = []
        case _:
            return ""
    activation = getattr(layer, "activation", keras.activations.linear)
    if activation is not keras.activations.linear:
        settings.append(getattr(activation, "__name__", type(activation).__name__).strip("_"))
    return ", ".join(settings)

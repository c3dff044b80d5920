"""Create the description of a model, which `nodewise describe-model` writes.

Imports TensorFlow: the model is built, but nothing is computed with it.
"""

import inspect
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf
from keras import layers as kinds

from nodewise.core.errors import UserError
from nodewise.models import registry
from nodewise.models.contents import graph_calls, make_all_variables
from nodewise.models.cut import most_stages
from nodewise.models.graph_flops import count_call, count_model
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
    _refuse_fixed_batch(model, name)
    try:
        layers = layers_of(model) if _trains_its_layers(model) else []
    except (KeyError, TypeError, ValueError):
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


class _Call(NamedTuple):
    """One call of a layer or operation in a model's graph, with its inputs and output."""

    name: str
    operation: Any
    inputs: list[str]
    output: keras.KerasTensor
    arguments: Any


def layers_of(model: keras.Model) -> list[Layer]:
    """Return the layers of a model and of its inner models, in an order in which they are computed.

    Raises:
        ValueError: the model is not a graph of layers that are each used once, with known sizes.
    """
    layers: list[Layer] = []
    reached: dict[str, bool] = {}  # whether the gradient is propagated back through a layer
    for call in _calls(model):
        shape, trainable = list(call.output.shape[1:]), _size(call.operation, "trainable_weights")
        if None in shape:
            raise ValueError(f"{call.name}: the size of its output is not known")
        before = any(reached[source] for source in call.inputs)
        reached[call.name] = before or trainable > 0
        forward, training, uncounted = 0, 0, set[str]()
        # token ids and masks need no FLOPs
        if call.inputs and keras.backend.is_float_dtype(call.output.dtype):
            forward, training, uncounted = count_call(
                call.operation, call.arguments, trained=trainable > 0, reached=before
            )
        layers.append(
            Layer(
                name=call.name,
                kind=type(call.operation).__name__,
                detail=_detail(call.operation),
                inputs=call.inputs,
                output_shape=shape,
                parameters=_size(call.operation, "weights"),
                trainable=trainable,
                flops=forward,
                training_flops=training,
                uncounted=sorted(uncounted),
            )
        )
    return layers


def _size(layer: Any, weights: str) -> int:  # noqa: ANN401
    """Return the number of entries in all `weights` or `trainable_weights` of a layer."""
    return sum(math.prod(one.shape) for one in getattr(layer, weights, []))


def _calls(
    model: keras.Model, prefix: str = "", made_by: dict[int, str] | None = None
) -> Iterator[_Call]:
    """Yield the calls of a model in order; inner models are replaced by their own calls.

    `made_by` maps the `id` of a tensor to the name of the call that made it, and is extended here.
    For an inner model it starts with that model's inputs.
    """
    made_by = {} if made_by is None else made_by
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
        tensors = _computed_on(node.arguments.args, node.arguments.kwargs)
        yield _Call(
            name=name,
            operation=operation,
            inputs=list(dict.fromkeys(made_by[id(tensor)] for tensor in tensors)),
            output=node.outputs[0],
            arguments=node.arguments,
        )


def _computed_on(arguments: Iterable[Any], named: Mapping[str, Any]) -> list[keras.KerasTensor]:
    """Return the input tensors of a call, without masks, which only say what to leave out."""
    given = [value for name, value in named.items() if not name.endswith("mask")]
    flat = keras.tree.flatten([*arguments, *given])
    return [one for one in flat if isinstance(one, keras.KerasTensor)]


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
            settings = [_by(layer.pool_size)]
        case kinds.Conv2D():
            settings = [_by(layer.kernel_size), f"{layer.filters} filters"]
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


def _by(sizes: Iterable[int]) -> str:
    return "×".join(str(size) for size in sizes)

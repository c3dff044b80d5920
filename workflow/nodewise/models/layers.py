"""Describe the layers of a built model: their kinds, inputs, parameters and operations.

Imports TensorFlow, but computes nothing.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import keras

from nodewise.core.errors import UserError
from nodewise.models import flops
from nodewise.models.graph_flops import count_call
from nodewise.results.model_description import Layer

_DETAILS = {
    "Activation": "{activation}",
    "Dropout": "{rate:g}",
    "Embedding": "{input_dim:,} entries of {output_dim}",
    "MultiHeadAttention": "{num_heads} heads of {key_dim}",
}


@dataclass(frozen=True)
class _Call:
    """One call of a layer or operation in a model's graph, with its inputs and output."""

    name: str
    operation: Any
    inputs: list[str]
    input_shapes: list[tuple[int, ...]]
    output: keras.KerasTensor
    arguments: Any

    @property
    def kind(self) -> str:
        return type(self.operation).__name__

    @property
    def of_keras(self) -> bool:
        """Whether the class is one of Keras: a custom class may have the same name."""
        return type(self.operation).__module__.partition(".")[0] == "keras"

    @property
    def config(self) -> Mapping[str, Any]:
        """The layer's settings.

        They are empty if the layer cannot return them, for example due to a custom regularizer, and
        for a bare operation, which has no settings that matter.
        """
        if not isinstance(self.operation, keras.Layer):
            return {}
        try:
            config: dict[str, Any] = self.operation.get_config()
        except (NotImplementedError, TypeError, ValueError):
            return {}
        return config

    def size(self, weights: str) -> int:
        """Return the number of entries in all of its `weights` or `trainable_weights`."""
        return sum(math.prod(one.shape) for one in getattr(self.operation, weights, []))


def layers_of(model: keras.Model, name: str) -> list[Layer]:
    """Return the layers of a model and of its inner models, in an order in which they are computed.

    Layers of a kind without a closed form are counted in their traced graph.

    Raises:
        UserError: the model is not a graph of layers that are each used once; the text begins with
            `name`.
    """
    layers: list[Layer] = []
    reached: dict[str, bool] = {}  # whether the gradient is propagated back through a layer
    for call in _calls(model):
        before = any(reached[source] for source in call.inputs)
        layers.append(_layer(call, name, before))
        reached[call.name] = before or layers[-1].trainable > 0
    return layers


def _layer(call: _Call, model: str, reached: bool) -> Layer:
    shape, trainable = list(call.output.shape[1:]), call.size("trainable_weights")
    if None in shape:
        raise UserError(f"{model}: {call.name}: the size of its output is not known")
    forward, training, uncounted = _operations(call, shape, trainable > 0, reached)
    return Layer(
        name=call.name,
        kind=call.kind,
        detail=_detail(call.kind, call.config) if call.of_keras else "",
        inputs=call.inputs,
        output_shape=shape,
        parameters=call.size("weights"),
        trainable=trainable,
        flops=forward,
        training_flops=training,
        uncounted=sorted(uncounted),
    )


def _operations(
    call: _Call, shape: list[int], trained: bool, reached: bool
) -> tuple[int, int, set[str]]:
    """Return a layer's FLOPs forward and in training, and the kinds that are not counted."""
    if not keras.backend.is_float_dtype(call.output.dtype):  # token ids and masks need no FLOPs
        return 0, 0, set()
    try:
        if not call.of_keras:
            raise KeyError(call.kind)
        parts = flops.parts_of(call.kind, call.config, call.input_shapes, shape)
    except (KeyError, ValueError):
        return count_call(call.operation, call.arguments, trained=trained, reached=reached)
    return (
        flops.forward_flops(parts),
        flops.training_flops(parts, trained=trained, reached=reached),
        set(),
    )


def graph_calls(model: keras.Model) -> list[Any]:
    """Return the calls of a model's layers and inputs, in the order in which Keras runs them.

    Layers also know calls in other graphs: each `Sequential.add` leaves one behind. Those are not
    included.
    """
    # private: the public get_config() lists calls only if every layer can be serialized
    by_depth = keras.Function(model.inputs, model.outputs)._nodes_by_depth
    return [node for depth in sorted(by_depth, reverse=True) for node in by_depth[depth]]


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
            raise UserError(f"{name}: is used more than once, so the model is no list of layers")
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
            input_shapes=[tuple(tensor.shape[1:]) for tensor in tensors],
            output=node.outputs[0],
            arguments=node.arguments,
        )


def _computed_on(arguments: Iterable[Any], named: Mapping[str, Any]) -> list[keras.KerasTensor]:
    """Return the input tensors of a call, without masks, which only say what to leave out."""
    given = [value for name, value in named.items() if not name.endswith("mask")]
    flat = keras.tree.flatten([*arguments, *given])
    return [one for one in flat if isinstance(one, keras.KerasTensor)]


def _detail(kind: str, config: Mapping[str, Any]) -> str:
    """Return the settings that characterise a layer, as text; empty if there are none."""
    if not config:
        return ""
    if kind in ("MaxPooling2D", "AveragePooling2D"):
        return _by(config["pool_size"])
    if kind == "Conv2D":
        stride = max(config["strides"])
        words = [_by(config["kernel_size"]), f"{config['filters']} filters"]
        return ", ".join(
            [*words, *([f"stride {stride}"] if stride > 1 else []), *_function(config)]
        )
    if kind == "Dense":
        return ", ".join([f"{config['units']} units", *_function(config)])
    return _DETAILS[kind].format(**config) if kind in _DETAILS else ""


def _function(config: Mapping[str, Any]) -> list[str]:
    """Return the name of a layer's activation function, unless it is linear.

    A custom function is a dict in the settings.
    """
    activation = config["activation"]
    name = activation["config"] if isinstance(activation, dict) else activation
    return [] if name == "linear" else [name.strip("_")]


def _by(sizes: Iterable[int]) -> str:
    return "×".join(str(size) for size in sizes)

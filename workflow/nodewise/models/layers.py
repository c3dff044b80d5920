"""Describe the layers of a built model: their kinds, inputs, parameters and operations.

Imports TensorFlow, but computes nothing.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import keras
from keras import layers as kinds

from nodewise.core.errors import UserError
from nodewise.models.graph_flops import count_call
from nodewise.results.model_description import Layer


@dataclass(frozen=True)
class _Call:
    """One call of a layer or operation in a model's graph, with its inputs and output."""

    name: str
    operation: Any
    inputs: list[str]
    output: keras.KerasTensor
    arguments: Any

    def size(self, weights: str) -> int:
        """Return the number of entries in all of its `weights` or `trainable_weights`."""
        return sum(math.prod(one.shape) for one in getattr(self.operation, weights, []))


def layers_of(model: keras.Model, name: str) -> list[Layer]:
    """Return the layers of a model and of its inner models, in an order in which they are computed.

    Raises:
        UserError: the model is not a graph of layers that are each used once; the text begins with
            `name`.
    """
    layers: list[Layer] = []
    reached: dict[str, bool] = {}  # whether the gradient is propagated back through a layer
    for call in _calls(model):
        shape, trainable = list(call.output.shape[1:]), call.size("trainable_weights")
        if None in shape:
            raise UserError(f"{name}: {call.name}: the size of its output is not known")
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
                parameters=call.size("weights"),
                trainable=trainable,
                flops=forward,
                training_flops=training,
                uncounted=sorted(uncounted),
            )
        )
    return layers


def graph_calls(model: keras.Model) -> list[Any]:
    """Return the calls of a model's layers and inputs, in the order in which Keras runs them.

    Layers also know calls in other graphs: each `Sequential.add` leaves one behind. Those are not
    included.
    """
    # private: the public get_config() lists calls only if every layer can be serialized
    by_depth = keras.Function(model.inputs, model.outputs)._nodes_by_depth  # noqa: SLF001 (get_config needs layers that can be serialized)
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

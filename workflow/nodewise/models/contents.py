"""Find the parts of a model and of a batch: layers, optimizers, variables, examples.

Imports TensorFlow.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import keras
import tensorflow as tf

# private: there is no public way to get Keras' global random generator
from keras.src.backend.common.global_state import set_global_attribute
from keras.src.random.seed_generator import global_seed_generator

from nodewise.core.errors import RefusedError


def examples_in(batch: Any) -> int:  # noqa: ANN401
    """Return the number of examples in a batch, from the first static shape.

    A ragged tensor has no static number of examples.

    Raises:
        RefusedError: no part of the batch has a static number of examples.
    """
    sizes = [part.shape[0] for part in tf.nest.flatten(batch) if part.shape[0] is not None]
    if not sizes:
        raise RefusedError("inputs and targets are all ragged, which no strategy can weight")
    return int(sizes[0])


def optimizers_of(model: keras.Model) -> list[keras.optimizers.Optimizer]:
    """Return the optimizers of a model: its own and those of compiled models inside it."""
    return _kept(layers_in(model), keras.optimizers.Optimizer)


def inner_optimizers(optimizer: keras.optimizers.Optimizer) -> list[keras.optimizers.Optimizer]:
    """Return the optimizers that update weights for `optimizer`: usually only itself.

    An optimizer that chooses another one for each variable may know them only once it is built.
    """
    kept = _kept([optimizer], keras.optimizers.Optimizer)
    if not kept and not hasattr(optimizer, "optimizers"):  # a MultiOptimizer has them
        return [optimizer]
    return [inner for one in kept for inner in inner_optimizers(one)]


def plain_variables(model: keras.Model, kind: Any = tf.Variable) -> list[Any]:  # noqa: ANN401
    """Return the variables of a type that layers and optimizers hold; by default plain ones."""
    optimizers = [inner for one in optimizers_of(model) for inner in (one, *inner_optimizers(one))]
    return _kept([*layers_in(model), *optimizers], kind)


def written_by(step: Any, batch: Any) -> dict[int, tf.Variable]:  # noqa: ANN401
    """Return the variables that a call writes, by `id` of the handle, in the order of their use."""
    # TensorFlow notes at a call which of the function's variables are only read
    caller = traced(lambda batch: [step(batch)], batch)
    written: set[int] = set()
    for call in caller.graph.get_operations():
        if call.type.endswith("PartitionedCall"):
            only_read = call.get_attr("_read_only_resource_inputs")
            written |= {id(one) for place, one in enumerate(call.inputs) if place not in only_read}
    handles = [id(handle) for handle, inside in caller.graph.captures if id(inside) in written]
    variables = {id(one.handle): one for one in caller.variables}
    return {handle: variables[handle] for handle in handles if handle in variables}


def unseeded() -> keras.random.SeedGenerator:
    """Return Keras' global random generator of this thread, used where no seed was given."""
    return global_seed_generator()


def draw_unseeded_by(generator: Any) -> None:  # noqa: ANN401
    """Make Keras use `generator` in this thread where no seed was given."""
    set_global_attribute("global_seed_generator", generator)


def draw_in_threads(model: keras.Model) -> None:
    """Make a model's `train_step` use this thread's global generator in whatever thread it runs."""
    train_step, generator = model.train_step, unseeded()

    def step(batch: Any) -> Any:  # noqa: ANN401
        draw_unseeded_by(generator)
        return train_step(batch)

    model.train_step = step


def traced(function: Callable[..., Any], *specs: Any) -> Any:  # noqa: ANN401
    """Return a function's trace for arguments of these specs; it creates missing variables."""
    # workers are killed, so that AutoGraph would leave behind a temporary file per function
    return tf.function(function, autograph=False).get_concrete_function(*specs)


def layers_in(layer: keras.Layer) -> list[keras.Layer]:
    """Return `layer` and all layers inside it, in attributes, lists and dicts."""
    found: dict[int, keras.Layer] = {}
    waiting = [layer]
    while waiting:
        one = waiting.pop()
        if id(one) not in found:
            found[id(one)] = one
            waiting += _kept([one], keras.Layer)
    return list(found.values())


def graph_calls(model: keras.Model) -> list[Any]:
    """Return the calls of a model's layers and inputs, in the order in which Keras runs them.

    Layers also know calls in other graphs: each `Sequential.add` leaves one behind. Those are not
    included.
    """
    by_depth = keras.Function(model.inputs, model.outputs)._nodes_by_depth  # noqa: SLF001 (get_config needs layers that can be serialized)
    return [node for depth in sorted(by_depth, reverse=True) for node in by_depth[depth]]


def _kept(holders: Iterable[object], kind: Any) -> list[Any]:  # noqa: ANN401
    """Return the objects of a type in attributes of `holders`, and in lists and dicts there."""
    inside = (one for holder in holders for one in _inside(getattr(holder, "__dict__", {})))
    return list({id(one): one for one in inside if isinstance(one, kind)}.values())


def _inside(value: object) -> Iterator[object]:
    """Yield a value and, if it is a dict, list or tuple, everything inside it."""
    yield value
    if isinstance(value, dict | list | tuple):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _inside(one)

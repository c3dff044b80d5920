"""Find the parts of a model and of a batch: layers, optimizers, variables, examples.

Imports TensorFlow.
"""

from collections.abc import Iterable
from typing import Any, TypeVar

import keras
import tensorflow as tf

# private: there is no public way to get Keras' global random generator
from keras.src.backend.common.global_state import set_global_attribute
from keras.src.random.seed_generator import global_seed_generator

from nodewise.core.errors import RefusedError

Kept = TypeVar("Kept")


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
    return list(_distinct(layers_in(model), keras.optimizers.Optimizer))


def inner_optimizers(optimizer: keras.optimizers.Optimizer) -> list[keras.optimizers.Optimizer]:
    """Return the optimizers that update weights for `optimizer`: usually only itself.

    An optimizer that chooses another one for each variable may know them only once it is built.
    """
    kept = _kept(optimizer, keras.optimizers.Optimizer)
    if not kept and not hasattr(optimizer, "optimizers"):  # a MultiOptimizer has them
        return [optimizer]
    return [inner for one in kept for inner in inner_optimizers(one)]


def plain_variables(model: keras.Model) -> list[Any]:
    """Return variables that Keras does not list: plain ones, and those of inner optimizers."""
    listed = optimizers_of(model)
    inner = [one for whole in listed for one in inner_optimizers(whole)]
    plain = _distinct([*layers_in(model), *listed, *inner], tf.Variable)
    return [*plain, *(v for one in inner if one not in listed for v in one.variables)]


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


def make_all_variables(model: keras.Model, batch: Any) -> None:  # noqa: ANN401
    """Make a model and its optimizers create their variables, by tracing a step on a batch spec."""
    # workers are killed, so that AutoGraph would leave behind a temporary file per function
    tf.function(model.train_step, autograph=False).get_concrete_function(batch)


def layers_in(layer: keras.Layer) -> list[keras.Layer]:
    """Return `layer` and all layers inside it, in attributes, lists and dicts."""
    found: dict[int, keras.Layer] = {}
    waiting = [layer]
    while waiting:
        one = waiting.pop()
        if id(one) in found:
            continue
        found[id(one)] = one
        waiting += _kept(one, keras.Layer)
    return list(found.values())


def graph_calls(model: keras.Model) -> list[Any]:
    """Return the calls of a model's layers and inputs, in the order in which Keras runs them.

    Layers also know calls in other graphs: each `Sequential.add` leaves one behind. Those are not
    included.
    """
    # private: the public get_config() lists calls only if every layer can be serialized
    by_depth = keras.Function(model.inputs, model.outputs)._nodes_by_depth  # noqa: SLF001 (get_config needs layers that can be serialized)
    return [node for depth in sorted(by_depth, reverse=True) for node in by_depth[depth]]


def _distinct(holders: Iterable[object], kind: type[Kept]) -> Iterable[Kept]:
    return {id(one): one for holder in holders for one in _kept(holder, kind)}.values()


def _kept(holder: object, kind: type[Kept]) -> list[Kept]:
    """Return the objects of type `kind` in an object's attributes, and in lists and dicts there."""
    waiting = list(getattr(holder, "__dict__", {}).values())
    for value in waiting:  # which grows
        if isinstance(value, dict | list | tuple):
            waiting.extend(value.values() if isinstance(value, dict) else value)
    return [value for value in waiting if isinstance(value, kind)]

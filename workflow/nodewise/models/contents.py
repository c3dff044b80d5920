"""What a model and a batch consist of: layers, optimizers, examples. Imports TensorFlow."""

from collections.abc import Iterable
from typing import Any, TypeVar

import keras
import tensorflow as tf

# private: there is no other way to the generator of what has no seed
from keras.src.backend.common.global_state import set_global_attribute
from keras.src.random.seed_generator import global_seed_generator

from nodewise.core.errors import RefusedError

_UNSEEDED = "global_seed_generator"  # the name by which Keras keeps it

Kept = TypeVar("Kept")


def examples_in(batch: Any) -> int:  # noqa: ANN401
    """Return the number of examples in a batch, which a static shape tells; no ragged one does.

    Raises:
        RefusedError: none does.
    """
    sizes = [part.shape[0] for part in tf.nest.flatten(batch) if part.shape[0] is not None]
    if not sizes:
        raise RefusedError("inputs and targets are all ragged, which no strategy can weight")
    return int(sizes[0])


def optimizers_of(model: keras.Model) -> list[keras.optimizers.Optimizer]:
    """Return the optimizers of a model: its own, and those of compiled models inside of it."""
    return list(_distinct(layers_in(model), keras.optimizers.Optimizer))


def inner_optimizers(optimizer: keras.optimizers.Optimizer) -> list[keras.optimizers.Optimizer]:
    """Return the optimizers that change weights for an optimizer: mostly itself.

    One that chooses an optimizer for each variable may know them only once it is built.
    """
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        return inner_optimizers(optimizer.inner_optimizer)
    # a MultiOptimizer, which the oldest allowed Keras does not have
    return list(getattr(optimizer, "optimizers", [optimizer]))


def plain_variables(model: keras.Model) -> list[tf.Variable]:
    """Return the variables of TensorFlow that layers keep, which Keras does not count among its."""
    return list(_distinct(layers_in(model), tf.Variable))


def unseeded() -> keras.random.SeedGenerator:
    """Return the generator by which Keras draws in this thread where it was given no seed."""
    return global_seed_generator()


def draw_unseeded_by(generator: Any) -> None:  # noqa: ANN401
    """Have Keras draw by `generator` in this thread where it was given no seed."""
    set_global_attribute(_UNSEEDED, generator)


def draw_in_threads(model: keras.Model) -> None:
    """Have a model's `train_step` draw by this thread's generator in any thread, as others do."""
    train_step, generator = model.train_step, unseeded()

    def step(batch: Any) -> Any:  # noqa: ANN401
        draw_unseeded_by(generator)
        return train_step(batch)

    model.train_step = step


def make_all_variables(model: keras.Model, batch: Any) -> None:  # noqa: ANN401
    """Have a model and its optimizers make their variables: trace a step on a batch's spec."""
    # AutoGraph would leave a file per function: workers do not exit, they are ended
    tf.function(model.train_step, autograph=False).get_concrete_function(batch)


def layers_in(layer: keras.Layer) -> list[keras.Layer]:
    """Return `layer` and all layers inside of it, in attributes, lists and dicts."""
    found: dict[int, keras.Layer] = {}
    waiting = [layer]
    while waiting:
        one = waiting.pop()
        if id(one) in found:
            continue
        found[id(one)] = one
        waiting += _kept(one, keras.Layer)
    return list(found.values())


def _distinct(layers: Iterable[keras.Layer], kind: type[Kept]) -> Iterable[Kept]:
    return {id(one): one for layer in layers for one in _kept(layer, kind)}.values()


def _kept(layer: keras.Layer, kind: type[Kept]) -> list[Kept]:
    """Return what a layer keeps of a kind, in its attributes, and in lists and dicts there."""
    found: list[Kept] = []
    for value in vars(layer).values():
        kept = list(value.values()) if isinstance(value, dict) else value
        kept = kept if isinstance(kept, list | tuple) else [kept]
        found += [one for one in kept if isinstance(one, kind)]
    return found

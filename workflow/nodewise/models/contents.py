"""What a model and a batch consist of: layers, optimizers, examples. Imports TensorFlow."""

from typing import Any, TypeVar

import keras
import tensorflow as tf

from nodewise.core.errors import RefusedError

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
    """Return the optimizers of a model: the compiled one, and those that it keeps beside it."""
    found = {id(one): one for one in _kept(model, keras.optimizers.Optimizer)}
    return list(found.values())


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


def _kept(layer: keras.Layer, kind: type[Kept]) -> list[Kept]:
    """Return what a layer keeps of a kind, in its attributes, and in lists and dicts there."""
    found: list[Kept] = []
    for value in vars(layer).values():
        kept = list(value.values()) if isinstance(value, dict) else value
        kept = kept if isinstance(kept, list | tuple) else [kept]
        found += [one for one in kept if isinstance(one, kind)]
    return found

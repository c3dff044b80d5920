"""Refuse models that several workers would train differently than a single process.

Imports TensorFlow.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from nodewise.core.errors import RefusedError
from nodewise.models.contents import layers_in
from nodewise.strategies import api
from nodewise.strategies.parts import is_a_mean_of_keras, own_methods

_MEANS = ("sum_over_batch_size", "mean", "mean_with_sample_weight")
_EXAMPLES, _ALIKE, _GROWS, _STEPS = 4, 0.01, 1.4, 16
_AND_HALVES = (slice(None), slice(_EXAMPLES // 2), slice(_EXAMPLES // 2, None))
_SIZES = np.array([0.9, 0.9, 0.1, 0.1])  # of the numbers of each example: halves are not alike


def check(model: keras.Model, job: api.Job) -> None:
    """Check that averaging the workers' gradients is the right way to train the model.

    Raises:
        RefusedError: its loss is not a mean, or a layer depends on the examples of other workers.
    """
    if job.size == 1:
        return
    check_unsynchronized(model)
    for loss in tf.nest.flatten(model.loss):
        if (reduction := getattr(loss, "reduction", _MEANS[0])) not in _MEANS:
            raise RefusedError(
                f"the loss has the reduction {reduction}, and workers average gradients: use "
                f"{_MEANS[0]}, or the strategy multi_worker_mirrored, which adds them up"
            )
    for name in _own_losses_unlike(np.mean, model, job):
        raise RefusedError(
            f"the loss {name} of a batch is not the mean of its values for the parts of the batch, "
            "whose gradients are averaged; let it return a value for each example"
        )
    if _grows_with_batch(model, job):
        raise RefusedError(
            "the gradients of train_step grow with the batch, and workers average them: use a "
            "mean, or the strategy multi_worker_mirrored, which adds them up"
        )


def check_added(model: keras.Model, job: api.Job) -> None:
    """Check that adding the replicas' gradients up, as tf.distribute does, is right.

    Keras divides a loss that has a value for each example by the number of replicas, and leaves a
    single number as it is.

    Raises:
        RefusedError: its loss is neither a mean that Keras computes nor a sum.
    """
    if job.size == 1:
        return
    for loss in tf.nest.flatten(model.loss):
        if getattr(loss, "reduction", _MEANS[0]) in (None, "none"):
            raise RefusedError(
                f"the loss {_name(loss)} has no reduction, and Keras reports the loss of several "
                f"replicas wrongly then: use {_MEANS[0]} or sum"
            )
    for name in _own_losses_unlike(np.sum, model, job):
        raise RefusedError(
            f"the loss {name} returns one number for a batch, and tf.distribute adds up those of "
            "the workers; let it return a value for each example"
        )


def _grows_with_batch(model: keras.Model, job: api.Job) -> bool:
    """Return whether the gradients of a train_step of the user's own grow with the batch.

    A batch that is repeated four times has the same mean, and four times the sum. Its examples
    differ, because equal ones have no gradient if a loss compares them with each other. Several
    steps average over chance, as of dropout.
    """
    if job.batch is None or not own_methods(model):
        return False
    kept = [(variable, variable.numpy()) for variable in api.changing(model)]

    def norm(examples: int) -> tf.Tensor:
        found: list[Any] = []
        numbers = np.resize([0.5, 1.0], examples)  # of each example; as integers 0 and 1
        with api.replaced_apply(model, lambda _, grads, *_more, **_named: found.extend(grads)):
            model.train_step(
                tf.nest.map_structure(
                    lambda spec: tf.cast(
                        (np.ones((examples, *spec.shape[1:])).T * numbers).T, spec.dtype
                    ),
                    job.batch,
                )
            )
        return tf.linalg.global_norm(found)

    try:
        steps = [tf.function(partial(norm, count), autograph=False) for count in (2, 8)]
        few, many = (sum(step() for _ in range(_STEPS)) for step in steps)
        return bool(many > _GROWS * few)
    except Exception:  # whatever the user's code raises
        return False
    finally:
        for variable, value in kept:
            variable.assign(value)


def _own_losses_unlike(
    together: Callable[[Sequence[float]], float], model: keras.Model, job: api.Job
) -> list[str]:
    """Call losses that may be one number for a batch with random labels and outputs, from 0 to 1.

    Returns:
        The names of those that return one number for a batch, which is not that of both halves
        `together`. None if a loss cannot be called in this way.
    """
    losses = tf.nest.flatten(model.loss)
    losses = [None if is_a_mean_of_keras(one) else keras.losses.get(one) for one in losses]
    if job.batch is None or not any(losses):
        return []
    rng, found = np.random.default_rng(0), []
    try:
        x, y, _ = keras.utils.unpack_x_y_sample_weight(job.batch)
        predict = tf.function(lambda x: model(x, training=False), autograph=False)
        outputs = _with_losses(model, predict.get_concrete_function(x).structured_outputs)
        losses *= len(outputs) // len(losses)
        for loss, *both in zip(losses, _with_losses(model, y), outputs, strict=True):
            if loss is None:
                continue
            labels, predicted = (
                tf.cast((rng.random((_EXAMPLES, *spec.shape[1:])).T * _SIZES).T, spec.dtype)
                for spec in both
            )
            call = loss.call if isinstance(loss, keras.losses.Loss) else loss
            whole, *parts = (call(labels[rows], predicted[rows]).numpy() for rows in _AND_HALVES)
            off = abs(whole - together(parts))
            if whole.ndim == 0 and np.isfinite(off) and off > _ALIKE * abs(whole):
                found.append(_name(loss))
    except Exception:  # whatever the user's code raises
        return []
    return found


def _with_losses(model: keras.Model, parts: Any) -> Any:  # noqa: ANN401
    """Return labels or outputs in the order of the model's flattened losses."""
    if not isinstance(model.loss, dict):
        return tf.nest.flatten(parts)
    named = parts if isinstance(parts, dict) else dict(zip(model.output_names, parts, strict=True))
    return [named[name] for name in sorted(model.loss)]


def _name(loss: Any) -> str:  # noqa: ANN401
    # a functools.partial has neither name
    return str(getattr(loss, "name", None) or getattr(loss, "__name__", type(loss).__name__))


def check_unsynchronized(model: keras.Model) -> None:
    """Check that no layer depends on the examples of other workers.

    Raises:
        RefusedError: a layer does.
    """
    for layer in layers_in(model):
        if getattr(layer, "synchronized", False):
            raise RefusedError(
                f"the layer {layer.name} is synchronized, which only mirrored and "
                "multi_worker_mirrored do"
            )

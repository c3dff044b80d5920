"""Refuse models that several workers would train differently than a single process.

Imports TensorFlow.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from nodewise.core.errors import RefusedError
from nodewise.models.contents import layers_in
from nodewise.strategies import api

_MEANS = ("sum_over_batch_size", "mean", "mean_with_sample_weight")
_EXAMPLES, _ALIKE = 4, 0.01
_BATCH_AND_HALVES = (slice(None), slice(_EXAMPLES // 2), slice(_EXAMPLES // 2, None))


def check(model: keras.Model, job: api.Job) -> None:
    """Check that averaging the workers' gradients is the right way to train the model.

    Raises:
        RefusedError: its loss is not a mean, or a layer depends on the examples of other workers.
    """
    if job.size == 1:
        return
    check_unsynchronized(model)
    for loss in tf.nest.flatten(model.loss):
        reduction = getattr(loss, "reduction", _MEANS[0])
        if reduction not in _MEANS:
            raise RefusedError(
                f"the loss has the reduction {reduction}, and workers average gradients: use "
                f"{_MEANS[0]}, or the strategy multi_worker_mirrored, which adds them up"
            )
    check_mean(model, job)


def check_mean(model: keras.Model, job: api.Job) -> None:
    """Check that the loss of a batch is the mean of the losses of its parts.

    Raises:
        RefusedError: a loss of the model's own is anything else, such as a sum.
    """
    for name, whole, parts in _losses_of_parts(model, job):
        if abs(whole - np.mean(parts)) > _ALIKE * abs(whole):
            raise RefusedError(
                f"the loss {name} of a batch is not the mean of its values for the parts of the "
                "batch, whose gradients are averaged; let it return a value for each example"
            )


def check_added(model: keras.Model, job: api.Job) -> None:
    """Check that adding the replicas' gradients up, as tf.distribute does, is right.

    Keras divides a loss that has a value for each example by the number of replicas, and leaves a
    single number as it is.

    Raises:
        RefusedError: its loss is neither a mean that Keras computes nor a sum.
    """
    for loss in tf.nest.flatten(model.loss) if job.size > 1 else []:
        if getattr(loss, "reduction", _MEANS[0]) in (None, "none"):
            raise RefusedError(
                f"the loss {_name(loss)} has no reduction, and Keras reports the loss of several "
                f"replicas wrongly then: use {_MEANS[0]} or sum"
            )
    for name, whole, parts in _losses_of_parts(model, job):
        if abs(whole - np.sum(parts)) > _ALIKE * abs(whole):
            raise RefusedError(
                f"the loss {name} returns one number for a batch, and tf.distribute adds up those "
                "of the workers; let it return a value for each example"
            )


def _losses_of_parts(model: keras.Model, job: api.Job) -> Iterator[tuple[str, float, list[float]]]:
    """Try the model's own losses that return one number for a batch, on labels made up at random.

    Yields:
        The name of a loss, its value for a batch, and its values for both halves of the batch.
        Nothing for losses with a value for each example, such as those of Keras, and where such a
        value cannot be computed: the user's code may want other labels, or other inputs.
    """
    losses = tf.nest.flatten(model.loss)
    if job.size == 1 or job.batch is None or not any(map(_is_own, losses)):
        return
    x, y, _ = keras.utils.unpack_x_y_sample_weight(job.batch)
    predict = tf.function(lambda x: model(x, training=False), autograph=False)
    try:
        outputs = tf.nest.flatten(predict.get_concrete_function(x).structured_outputs)
    except Exception:  # whatever the user's model raises
        return
    labels = tf.nest.flatten(y)
    if len(losses) == 1:
        losses *= len(outputs)
    if not len(losses) == len(labels) == len(outputs):
        return
    for loss, *specs in zip(losses, labels, outputs, strict=True):
        values = _values(loss, specs) if _is_own(loss) else []
        if values and np.isfinite(values).all():
            yield _name(loss), values[0], values[1:]


def _values(loss: Any, specs: Sequence[tf.TensorSpec]) -> list[float]:  # noqa: ANN401
    """Return a loss of a batch and of both its halves; empty if it is not one number each."""
    called = loss.call if isinstance(loss, keras.losses.Loss) else loss
    rng = np.random.default_rng(0)
    try:
        made = [_made_up(spec, rng) for spec in specs]
        return [float(called(*(one[rows] for one in made))) for rows in _BATCH_AND_HALVES]
    except Exception:  # whatever the user's loss raises
        return []


def _is_own(loss: Any) -> bool:  # noqa: ANN401
    """Return whether a loss is a function or an object that does not come from Keras."""
    return callable(loss) and not loss.__module__.startswith("keras.")


def _name(loss: Any) -> str:  # noqa: ANN401
    name = getattr(loss, "name", None) or getattr(loss, "__name__", None)
    return str(name or type(loss).__name__)  # a functools.partial has neither


def _made_up(spec: tf.TensorSpec, rng: np.random.Generator) -> tf.Tensor:
    """Return numbers between 0 and 1 in the form of `spec`; 0 where it has whole numbers."""
    return tf.cast(rng.uniform(0.1, 0.9, (_EXAMPLES, *spec.shape[1:])), spec.dtype)


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

"""Refuse models that several workers would train differently than a single process.

Imports TensorFlow.
"""

from collections.abc import Iterator
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
    # also those that a train_step of the user's own may call
    attributes = [one for one in vars(model).values() if isinstance(one, keras.losses.Loss)]
    sums = [one for one in attributes if one.reduction == "sum"]
    for loss in [*tf.nest.flatten(model.loss), *sums]:
        reduction = getattr(loss, "reduction", _MEANS[0])
        if reduction not in _MEANS:
            raise RefusedError(
                f"the loss has the reduction {reduction}, and workers average gradients: use "
                f"{_MEANS[0]}, or the strategy multi_worker_mirrored, which adds them up"
            )
    for name, whole, parts in _tried(model, job):
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
    if job.size == 1:
        return
    for loss in tf.nest.flatten(model.loss):
        if getattr(loss, "reduction", _MEANS[0]) in (None, "none"):
            raise RefusedError(
                f"the loss {_name(loss)} has no reduction, and Keras reports the loss of several "
                f"replicas wrongly then: use {_MEANS[0]} or sum"
            )
    for name, whole, parts in _tried(model, job):
        if abs(whole - np.sum(parts)) > _ALIKE * abs(whole):
            raise RefusedError(
                f"the loss {name} returns one number for a batch, and tf.distribute adds up those "
                "of the workers; let it return a value for each example"
            )


def _tried(model: keras.Model, job: api.Job) -> Iterator[tuple[str, float, list[float]]]:
    """Call the model's own losses with random labels and outputs, from 0 to 1.

    Yields:
        The name of a loss that returns one number for a batch, its value for a batch, and its
        values for both halves of the batch. Nothing if a loss cannot be called in this way.
    """
    losses = tf.nest.flatten(model.loss)
    own = [callable(one) and not one.__module__.startswith("keras.") for one in losses]
    if job.batch is None or not any(own):
        return
    x, y, _ = keras.utils.unpack_x_y_sample_weight(job.batch)
    rng = np.random.default_rng(0)
    found = []
    try:
        predict = tf.function(lambda x: model(x, training=False), autograph=False)
        outputs = tf.nest.flatten(predict.get_concrete_function(x).structured_outputs)
        losses, own = (one * (len(outputs) // len(one)) for one in (losses, own))
        pairs = [
            [
                tf.cast(rng.uniform(0.1, 0.9, (_EXAMPLES, *spec.shape[1:])), spec.dtype)
                for spec in specs
            ]
            for specs in zip(tf.nest.flatten(y), outputs, strict=True)
        ]
        for loss, (labels, predicted), is_own in zip(losses, pairs, own, strict=True):
            if not is_own:
                continue
            call = loss.call if isinstance(loss, keras.losses.Loss) else loss
            values = [call(labels[rows], predicted[rows]).numpy() for rows in _BATCH_AND_HALVES]
            if values[0].ndim == 0 and np.isfinite(values).all():
                found.append((_name(loss), values[0], values[1:]))
    except Exception:  # whatever the user's code raises
        return
    yield from found


def _name(loss: Any) -> str:  # noqa: ANN401
    name = getattr(loss, "name", None) or getattr(loss, "__name__", None)
    return str(name or type(loss).__name__)  # a functools.partial has neither


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

"""Refuse models that several workers would train differently than a single process.

Imports TensorFlow.
"""

import keras
import tensorflow as tf

from nodewise.core.errors import RefusedError
from nodewise.models.contents import layers_in

_MEANS = ("sum_over_batch_size", "mean", "mean_with_sample_weight")


def check(model: keras.Model, workers: int) -> None:
    """Check that averaging the workers' gradients is the right way to train the model.

    Raises:
        RefusedError: its loss is a sum, or a layer depends on the examples of other workers.
    """
    if workers == 1:
        return
    check_unsynchronized(model)
    for loss in tf.nest.flatten(model.loss):
        reduction = getattr(loss, "reduction", _MEANS[0])
        if reduction not in _MEANS:
            raise RefusedError(
                f"the loss has the reduction {reduction}, and workers average gradients: use "
                f"{_MEANS[0]}, or the strategy multi_worker_mirrored, which adds them up"
            )


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

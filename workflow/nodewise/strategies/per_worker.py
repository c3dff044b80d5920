"""Models that several workers would train otherwise than one process does.

Imports TensorFlow.
"""

import keras
import tensorflow as tf

from nodewise.core.errors import RefusedError
from nodewise.models.contents import layers_in

_MEANS = ("sum_over_batch_size", "mean", "mean_with_sample_weight")


def check(model: keras.Model, workers: int) -> None:
    """Check that the mean of the workers' gradients is what a model is to be trained with.

    Raises:
        RefusedError: its loss is a sum, or a layer counts on the examples of other workers.
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
    """Check that no layer counts on the examples of other workers.

    Raises:
        RefusedError: one does.
    """
    for layer in layers_in(model):
        if getattr(layer, "synchronized", False):
            raise RefusedError(
                f"the layer {layer.name} is synchronized, which only mirrored and "
                "multi_worker_mirrored do"
            )

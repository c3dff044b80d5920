"""Quick gradients are TensorFlow's own to rounding."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from nodewise.strategies import base, quick_gradients

IMAGES, CHANNELS, CLASSES = 6, 3, 4


def are_equal(
    job: base.Job, rows: int, columns: int, *, channels: int = CHANNELS, rounded: bool = False
) -> None:
    """Compare all gradients, and the scores, on random images: to the last bit if not `rounded`.

    That of a bias is a sum, of fewer numbers here than there; a convolution's, in another order.
    """
    keras.utils.set_random_seed(1)
    model = job.build()
    random = np.random.default_rng(rows)
    # a few values only, so that many windows have several largest ones
    x = tf.constant(random.integers(1, 4, (IMAGES, rows, columns, channels)), tf.float32)
    y = tf.constant(random.integers(0, CLASSES, IMAGES))
    mine, scores = tf.function(quick_gradients.gradients)(model, job, x, y)
    theirs, scores_of_theirs = tf.function(base.gradients)(model, job, x, y)
    assert np.count_nonzero(mine[0]) > 0
    for one, other in zip([*mine, scores], [*theirs, scores_of_theirs], strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-6 * rounded, atol=1e-7 * rounded)


def test_the_gradient_of_what_a_dense_layer_takes_is_a_product_of_batches():
    def build() -> keras.Model:
        return keras.Sequential(
            [
                keras.Input((6, 6, CHANNELS)),
                layers.Flatten(),
                layers.Dense(5),
                layers.Dense(CLASSES),
            ]
        )

    job = base.Job(0, 1, IMAGES, 1, build, keras.optimizers.SGD)
    are_equal(job, 6, 6, rounded=True)
    assert "BatchMatMulV2" in operations(job, 6, 6)


def operations(job: base.Job, rows: int, columns: int, *, channels: int = CHANNELS) -> set[str]:
    """Return the types of the operations that the gradients of a job's model come from."""
    model = job.build()
    x, y = tf.zeros((IMAGES, rows, columns, channels)), tf.zeros(IMAGES, tf.int64)
    traced = tf.function(quick_gradients.gradients).get_concrete_function(model, job, x, y)
    found, ahead = set(), [output.op for output in traced.outputs]
    while ahead:
        operation = ahead.pop()
        if operation not in found:
            found.add(operation)
            ahead += [taken.op for taken in operation.inputs]
    return {operation.type for operation in found}

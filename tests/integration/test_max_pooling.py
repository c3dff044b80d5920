"""The compiled gradient of max pooling is TensorFlow's own, bit by bit, whichever value wins."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from nodewise.strategies import base, max_pooling

IMAGES, CHANNELS, CLASSES = 6, 3, 4


def of_places(rows: int, columns: int, **pooling) -> base.Job:
    """Return a job whose model has a weight for every place of an image, then pools."""

    def build() -> keras.Model:
        shape = (rows, columns, CHANNELS)
        places = layers.EinsumDense("bhwc,hwc->bhwc", shape, kernel_initializer="ones")
        pooled = layers.MaxPooling2D(**pooling)
        kept = [keras.Input(shape), places, pooled, layers.Flatten(), layers.Dense(CLASSES)]
        return keras.Sequential(kept)

    return base.Job(0, 1, IMAGES, 1, build, keras.optimizers.SGD)


@pytest.mark.parametrize(
    ("rows", "columns", "pooling"),
    [
        (6, 8, {"pool_size": 2}),
        (7, 9, {"pool_size": 2}),  # the last row and column are in no window
        (9, 8, {"pool_size": (3, 2)}),
        (7, 7, {"pool_size": 3, "strides": 2}),  # windows overlap: TensorFlow's own
        (7, 7, {"pool_size": 2, "strides": 3}),
        (7, 7, {"pool_size": 2, "padding": "same"}),
        (10, 10, {"pool_size": 5}),
    ],
)
def test_gradients_are_those_of_tensorflow(rows, columns, pooling):
    are_equal(of_places(rows, columns, **pooling), rows, columns)


def test_images_may_have_any_size():
    def build() -> keras.Model:
        pooled = [layers.Conv2D(2, 1), layers.MaxPooling2D(), layers.GlobalAveragePooling2D()]
        return keras.Sequential(
            [keras.Input((None, None, CHANNELS)), *pooled, layers.Dense(CLASSES)]
        )

    are_equal(base.Job(0, 1, IMAGES, 1, build, keras.optimizers.SGD), 5, 6)


@pytest.mark.parametrize(
    ("window", "padding"),
    [([1, 3, 3, 1], [[0, 0], [1, 1], [1, 1], [0, 0]]), ([1, 2, 2, 1], "VALID")],
)
def test_pooling_by_tensorflow_itself_is_the_same(window, padding):
    class Pooled(layers.Layer):
        def call(self, x: tf.Tensor) -> tf.Tensor:
            return tf.nn.max_pool2d(x, window, window, padding)

    def build() -> keras.Model:
        shape = (6, 6, CHANNELS)
        places = layers.EinsumDense("bhwc,hwc->bhwc", shape, kernel_initializer="ones")
        kept = [keras.Input(shape), places, Pooled(), layers.Flatten(), layers.Dense(CLASSES)]
        return keras.Sequential(kept)

    are_equal(base.Job(0, 1, IMAGES, 1, build, keras.optimizers.SGD), 6, 6)


def are_equal(job: base.Job, rows: int, columns: int) -> None:
    """Compare all gradients, and the scores, on random images."""
    keras.utils.set_random_seed(1)
    model = job.build()
    random = np.random.default_rng(rows)
    # a few values only, so that many windows have several largest ones
    x = tf.constant(random.integers(1, 4, (IMAGES, rows, columns, CHANNELS)), tf.float32)
    y = tf.constant(random.integers(0, CLASSES, IMAGES))
    mine, scores = tf.function(max_pooling.gradients)(model, job, x, y)
    theirs, scores_of_theirs = tf.function(base.gradients)(model, job, x, y)
    assert np.count_nonzero(mine[0]) > 0
    for one, other in zip([*mine, scores], [*theirs, scores_of_theirs], strict=True):
        np.testing.assert_array_equal(one, other)


def test_windows_that_do_not_overlap_are_not_left_to_tensorflow():
    assert "MaxPoolGrad" not in operations(pool_size=2)
    assert "MaxPoolGrad" in operations(pool_size=3, strides=2)


def operations(**pooling) -> set[str]:
    """Return the types of the operations that find the gradients of a model that pools so."""
    job = of_places(7, 7, **pooling)
    model = job.build()
    x, y = tf.zeros((IMAGES, 7, 7, CHANNELS)), tf.zeros(IMAGES, tf.int64)
    traced = tf.function(max_pooling.gradients).get_concrete_function(model, job, x, y)
    return {operation.type for operation in traced.graph.get_operations()}

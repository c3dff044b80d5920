"""Quick gradients are TensorFlow's own to rounding, whichever value a pooling takes."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from nodewise.strategies import base, quick_gradients

IMAGES, CHANNELS, CLASSES = 6, 3, 4


@pytest.fixture
def pooling_alone(monkeypatch):
    """Leave products to TensorFlow: those of batches add up in another order."""
    monkeypatch.setattr(quick_gradients, "_multiply_by_batches", lambda graph: None)


def of_places(rows: int, columns: int, **pooling) -> base.Job:
    """Return a job whose model has a weight for every place of an image, then pools."""

    def build() -> keras.Model:
        shape = (rows, columns, CHANNELS)
        places = layers.EinsumDense("bhwc,hwc->bhwc", shape, kernel_initializer="ones")
        pooled = layers.MaxPooling2D(**pooling)
        kept = [keras.Input(shape), places, pooled, layers.Flatten(), layers.Dense(CLASSES)]
        return keras.Sequential(kept)

    return base.Job(0, 1, IMAGES, 1, build, keras.optimizers.SGD)


@pytest.mark.usefixtures("pooling_alone")
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

    are_equal(base.Job(0, 1, IMAGES, 1, build, keras.optimizers.SGD), 5, 6, rounded=True)


@pytest.mark.usefixtures("pooling_alone")
@pytest.mark.parametrize("use_bias", [True, False])
@pytest.mark.parametrize("activation", ["relu", "linear", "leaky_relu"])
def test_bias_and_relu_may_come_after_it(use_bias, activation):
    def build() -> keras.Model:
        ones = {"kernel_initializer": "ones", "bias_initializer": keras.initializers.Constant(-9)}
        convolution = layers.Conv2D(2, 2, activation=activation, use_bias=use_bias, **ones)
        pooled = [convolution, layers.MaxPooling2D(), layers.Flatten()]
        return keras.Sequential([keras.Input((7, 7, CHANNELS)), *pooled, layers.Dense(CLASSES)])

    are_equal(base.Job(0, 1, IMAGES, 1, build, keras.optimizers.SGD), 7, 7, rounded=use_bias)


@pytest.mark.parametrize("rows", [6, 7, 9])
@pytest.mark.parametrize("padding", ["same", "valid"])
@pytest.mark.parametrize("kernel", [1, 2, 3])
def test_a_convolution_of_one_channel_is_compiled_along(rows, padding, kernel):
    job = of_images_in_grey(layers.Conv2D(3, kernel, padding=padding, activation="relu"), rows)
    are_equal(job, rows, rows + 1, channels=1, rounded=True)
    assert "Conv2D" not in operations(job, rows, rows + 1, channels=1)


@pytest.mark.parametrize(
    "convolution",
    [
        layers.Conv2D(3, 5),  # more products than are compiled
        layers.Conv2D(3, 2, strides=2),
        layers.Conv2D(3, 2, dilation_rate=2),
    ],
)
def test_other_convolutions_are_left_to_tensorflow(convolution):
    job = of_images_in_grey(convolution, 8)
    are_equal(job, 8, 9, channels=1, rounded=True)
    assert "Conv2D" in operations(job, 8, 9, channels=1)


def of_images_in_grey(convolution: layers.Layer, rows: int) -> base.Job:
    """Return a job whose model learns how to see, then convolves and pools."""

    def build() -> keras.Model:
        shape = (rows, rows + 1, 1)
        places = layers.EinsumDense("bhwc,hwc->bhwc", shape, kernel_initializer="ones")
        again = convolution.__class__.from_config(convolution.get_config())
        pooled = [places, again, layers.MaxPooling2D(), layers.Flatten()]
        return keras.Sequential([keras.Input(shape), *pooled, layers.Dense(CLASSES)])

    return base.Job(0, 1, IMAGES, 1, build, keras.optimizers.SGD)


def test_a_sum_is_no_bias_and_what_others_take_stays():
    def build() -> keras.Model:
        x = keras.Input((6, 6, CHANNELS))
        one, other = (layers.Conv2D(2, 1, kernel_initializer="ones")(x) for _ in range(2))
        both = layers.ReLU()(layers.Add()([one, other]))
        pooled = layers.Flatten()(layers.MaxPooling2D()(both))
        joined = layers.Concatenate()([pooled, layers.Flatten()(both)])
        return keras.Model(x, layers.Dense(CLASSES)(joined))

    are_equal(base.Job(0, 1, IMAGES, 1, build, keras.optimizers.SGD), 6, 6, rounded=True)


@pytest.mark.usefixtures("pooling_alone")
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


def test_windows_that_do_not_overlap_are_not_left_to_tensorflow():
    assert "MaxPoolGrad" not in operations(of_places(7, 7, pool_size=2), 7, 7)
    assert "MaxPoolGrad" in operations(of_places(7, 7, pool_size=3, strides=2), 7, 7)


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

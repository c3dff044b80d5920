"""Max pooling that is compiled, and comes before the bias and the ReLU of what it pools.

On a CPU, TensorFlow's own takes as long as the convolution of a small network: it looks at one
number after the other, twice. XLA compiles element-wise work well there, but not convolutions. The
largest of some values keeps its place when a bias is added to all of them and a ReLU follows, so
that both, and their gradients, can be left to the largest: a quarter of the work for 2×2 windows.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from nodewise.strategies import base

_UNROLLED = 16  # places in a window, each some operations to compile


class Window(NamedTuple):
    """What max pooling takes the largest value of, and whether a ReLU comes before it."""

    height: int
    width: int
    relu: bool


def gradients(
    model: keras.Model, job: base.Job, x: tf.Tensor, y: tf.Tensor
) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Return what `base.gradients` does, to rounding; only inside a `tf.function`."""
    logits = model(x, training=True)
    _compile_pooling(tf.compat.v1.get_default_graph())
    loss_sum = tf.reduce_sum(job.loss(y, logits))
    weights = [variable.value for variable in model.trainable_variables]
    found = tf.gradients(loss_sum / job.global_batch, weights)
    return [tf.convert_to_tensor(g) for g in found], base.score(loss_sum, logits, y)


def _compile_pooling(graph: tf.Graph) -> None:
    """Have all that takes the output of a max pooling take that of a compiled one."""
    for pool in graph.get_operations():
        if pool.type != "MaxPool" or not _is_plain(pool):
            continue
        (old,) = pool.outputs
        takers = old.consumers()
        new = _pooled(pool)
        for taker in takers:
            for place, taken in enumerate(taker.inputs):
                if taken is old:
                    taker._update_input(place, new)


def _is_plain(pool: tf.Operation) -> bool:
    """Tell whether windows do not overlap, are small, and none reaches over the border."""
    images, height, width, channels = pool.get_attr("ksize")
    return bool(
        pool.get_attr("strides") == pool.get_attr("ksize")
        and pool.get_attr("padding") == b"VALID"
        and pool.get_attr("data_format") == b"NHWC"
        and images == channels == 1
        and height * width <= _UNROLLED
        and pool.inputs[0].shape[1:].is_fully_defined()
    )


def _pooled(pool: tf.Operation) -> tf.Tensor:
    """Return what a max pooling does; bias and ReLU before it come after it."""
    _, height, width, _ = pool.get_attr("ksize")
    (x,) = pool.inputs
    window = Window(height, width, relu=x.op.type == "Relu")
    if window.relu:
        (x,) = x.op.inputs
    bias = tf.zeros(x.shape[-1:], x.dtype)
    if x.op.type in ("BiasAdd", "AddV2") and _is_of_channels(x.op.inputs[1], x.shape[-1]):
        x, bias = x.op.inputs[0], tf.reshape(x.op.inputs[1], [-1])

    def pooled(x: tf.Tensor, bias: tf.Tensor) -> tuple[tf.Tensor, Callable[..., Any]]:
        largest, y = _forward(x, bias, window)
        return y, lambda gradient: _backward(x, largest, y, gradient, window)

    found: tf.Tensor = tf.custom_gradient(pooled)(x, bias)
    return found


def _is_of_channels(added: tf.Tensor, channels: int) -> bool:
    """Tell whether a tensor has one value for each channel, the same for all places."""
    return bool(added.shape.num_elements() == channels == added.shape[-1])


def _largest(x: tf.Tensor, bias: tf.Tensor, window: Window) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the largest values of the windows of x, and these with the bias and ReLU.

    Args:
        x: what is pooled, (images, rows, columns, channels).
        bias: (channels,).
        window: none overlaps another.
    """
    largest = tf.reduce_max(_windows(x, window), axis=[2, 4])
    y = largest + bias
    return largest, tf.nn.relu(y) if window.relu else y


def _to_first_largest(
    x: tf.Tensor, largest: tf.Tensor, y: tf.Tensor, gradient: tf.Tensor, window: Window
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the gradients of x and of the bias: of a window, all is its first largest value's.

    First row by row, as TensorFlow has it. `largest` and `y` are what `_largest` returned,
    `gradient` is that of `y`.
    """
    if window.relu:
        gradient = tf.where(y > 0, gradient, 0)
    windows = _windows(x, window)
    is_largest = tf.equal(windows, largest[:, :, None, :, None, :])
    left = tf.ones_like(gradient, tf.bool)
    lines = []
    for i in range(window.height):
        line = []
        for j in range(window.width):
            here = is_largest[:, :, i, :, j] & left
            line.append(tf.where(here, gradient, 0))
            left &= ~here
        lines.append(tf.stack(line, axis=3))
    _, down, height, across, width, channels = windows.shape
    inside = tf.reshape(tf.stack(lines, axis=2), [-1, down * height, across * width, channels])
    rest = [[0, x.shape[axis] - inside.shape[axis]] for axis in (1, 2)]
    return tf.pad(inside, [[0, 0], *rest, [0, 0]]), tf.reduce_sum(gradient, axis=[0, 1, 2])


def _windows(x: tf.Tensor, window: Window) -> tf.Tensor:
    """Return x by windows, (images, down, height, across, width, channels), without the rest."""
    _, rows, columns, channels = x.shape
    down, across = rows // window.height, columns // window.width
    inside = x[:, : down * window.height, : across * window.width]
    return tf.reshape(inside, [-1, down, window.height, across, window.width, channels])


_forward = tf.function(_largest, jit_compile=True, autograph=False)
_backward = tf.function(_to_first_largest, jit_compile=True, autograph=False)

"""A gradient of max pooling that is compiled, equal to TensorFlow's own bit by bit.

On a CPU, TensorFlow's own looks for every largest value anew, one number after the other; in a
small network it takes as long as the convolution. Everything else is left to TensorFlow: XLA
compiles element-wise work well there, but not convolutions.
"""

import keras
import tensorflow as tf

from nodewise.strategies import base

_NAME = "NodewiseMaxPool"
_ATTRIBUTES = ("ksize", "strides", "padding", "explicit_paddings", "data_format")
_UNROLLED = 16  # places in a window, each some operations to compile


def gradients(
    model: keras.Model, job: base.Job, x: tf.Tensor, y: tf.Tensor
) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Return what `base.gradients` does; only inside a `tf.function`."""
    # a tape knows one gradient of an operation, a graph lets one choose
    graph = tf.compat.v1.get_default_graph()
    with graph.gradient_override_map({"MaxPool": _NAME}):
        logits = model(x, training=True)
    loss_sum = tf.reduce_sum(job.loss(y, logits))
    weights = [variable.value for variable in model.trainable_variables]
    found = tf.gradients(loss_sum / job.global_batch, weights)
    return [tf.convert_to_tensor(g) for g in found], base.score(loss_sum, logits, y)


def _gradient(pool: tf.Operation, gradient: tf.Tensor) -> tf.Tensor:
    x, largest = pool.inputs[0], pool.outputs[0]
    window = pool.get_attr("ksize")
    images, height, width, channels = window
    if (
        pool.get_attr("strides") == window
        and pool.get_attr("padding") == b"VALID"
        and pool.get_attr("data_format") == b"NHWC"
        and images == channels == 1
        and height * width <= _UNROLLED
        and x.shape[1:].is_fully_defined()
    ):
        return _compiled(x, largest, gradient, height, width)
    return tf.raw_ops.MaxPoolGrad(
        orig_input=x,
        orig_output=largest,
        grad=gradient,
        **{name: pool.get_attr(name) for name in _ATTRIBUTES},
    )


def _to_first_largest(
    x: tf.Tensor, largest: tf.Tensor, gradient: tf.Tensor, height: int, width: int
) -> tf.Tensor:
    """Give each window's gradient to the first, row by row, of its largest values.

    Args:
        x: what was pooled, (images, rows, columns, channels).
        largest: the values of its windows, (images, rows // height, columns // width, channels).
        gradient: theirs, of the same shape.
        height: of a window, which no other overlaps.
        width: the same way.
    """
    _, rows, columns, channels = x.shape
    down, across = rows // height, columns // width
    inside = x[:, : down * height, : across * width]
    windows = tf.reshape(inside, [-1, down, height, across, width, channels])
    is_largest = tf.equal(windows, largest[:, :, None, :, None, :])
    left = tf.ones_like(gradient, tf.bool)
    lines = []
    for i in range(height):
        line = []
        for j in range(width):
            here = is_largest[:, :, i, :, j] & left
            line.append(tf.where(here, gradient, 0))
            left &= ~here
        lines.append(tf.stack(line, axis=3))
    found = tf.reshape(tf.stack(lines, axis=2), tf.shape(inside))
    outside = [[0, 0], [0, rows - down * height], [0, columns - across * width], [0, 0]]
    return tf.pad(found, outside)


_compiled = tf.function(_to_first_largest, jit_compile=True, autograph=False)
tf.RegisterGradient(_NAME)(_gradient)

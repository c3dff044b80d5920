"""Max pooling that is compiled, and comes before the bias and the ReLU of what it pools.

On a CPU, TensorFlow's own takes as long as the convolution of a small network: it looks at one
number after the other, twice. XLA compiles element-wise work well there, but not convolutions. The
largest of some values keeps its place when a bias is added to all of them and a ReLU follows, so
that both, and their gradients, can be left to the largest: a quarter of the work for 2×2 windows.

A small convolution of images with one channel is element-wise work, too: some products for each
value. It is compiled along with its pooling, so that what is pooled never goes through memory.
"""

from collections.abc import Callable
from functools import partial, reduce
from typing import Any, NamedTuple

import tensorflow as tf

_UNROLLED = 16  # places in a window, each some operations to compile
_PRODUCTS = 64  # in all places of a window, of a convolution that is compiled along

# a value, and what gives the gradients of what it is made from
_Differentiable = tuple[tf.Tensor, Callable[..., Any]]


class Window(NamedTuple):
    """What max pooling takes the largest value of; none overlaps another.

    `relu`: whether a ReLU comes before it; `rest`: how many rows and columns are in no window.
    """

    height: int
    width: int
    relu: bool
    rest: tuple[int, int]


def compile_pooling(graph: tf.Graph) -> None:
    """Have all that takes the output of a max pooling take that of a compiled one."""
    for pool in graph.get_operations():
        if pool.type == "MaxPool" and _is_plain(pool):
            take_instead(pool.outputs[0], _pooled)


def take_instead(old: tf.Tensor, make: Callable[[tf.Operation], tf.Tensor]) -> None:
    """Have all that takes a tensor take what `make` makes of its operation."""
    takers = old.consumers()
    new = make(old.op)
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
    relu = x.op.type == "Relu"
    if relu:
        (x,) = x.op.inputs
    bias = tf.zeros(x.shape[-1:], x.dtype)
    if x.op.type in ("BiasAdd", "AddV2") and _is_of_channels(x.op.inputs[1], x.shape[-1]):
        x, bias = x.op.inputs[0], tf.reshape(x.op.inputs[1], [-1])
    window = Window(height, width, relu, (x.shape[1] % height, x.shape[2] % width))
    found: tf.Tensor
    if _is_few_products(x.op, window):
        padding = x.op.get_attr("padding").decode()
        found = tf.custom_gradient(
            lambda images, filters, bias: _convolve_and_pool(images, filters, bias, window, padding)
        )(*x.op.inputs, bias)
    else:
        found = tf.custom_gradient(lambda x, bias: _pool(x, bias, window))(x, bias)
    return found


def _is_few_products(operation: tf.Operation, window: Window) -> bool:
    """Tell whether it is a small convolution of images of one channel, as Keras makes them."""
    if operation.type != "Conv2D":
        return False
    images, filters = operation.inputs
    rows, columns, _, _ = filters.shape
    return bool(
        images.shape[-1] == 1
        and images.shape[1:].is_fully_defined()
        and window.height * window.width * rows * columns <= _PRODUCTS
        and operation.get_attr("data_format") == b"NHWC"
        and operation.get_attr("padding") in (b"SAME", b"VALID")
        and {*operation.get_attr("strides"), *operation.get_attr("dilations")} == {1}
    )


def _pool(x: tf.Tensor, bias: tf.Tensor, window: Window) -> _Differentiable:
    first, y = _forward(x, bias, window)
    return y, lambda gradient: _backward(first, gradient, window)


def _convolve_and_pool(
    images: tf.Tensor, filters: tf.Tensor, bias: tf.Tensor, window: Window, padding: str
) -> _Differentiable:
    first, y = _forward_convolved(images, filters, bias, window, padding)

    def gradients(gradient: tf.Tensor) -> tuple[tf.Tensor, ...]:
        of_x, of_bias = _backward(first, gradient, window)
        how: dict[str, Any] = {"out_backprop": of_x, "strides": [1] * 4, "padding": padding}
        return (
            tf.raw_ops.Conv2DBackpropInput(input_sizes=tf.shape(images), filter=filters, **how),
            tf.raw_ops.Conv2DBackpropFilter(input=images, filter_sizes=filters.shape, **how),
            of_bias,
        )

    return y, gradients


def _is_of_channels(added: tf.Tensor, channels: int) -> bool:
    """Tell whether a tensor has one value for each channel, the same for all places."""
    return bool(added.shape.num_elements() == channels == added.shape[-1])


def _largest(
    places: list[tf.Tensor], bias: tf.Tensor, window: Window
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return where in its window the first largest value is, and it with bias and ReLU.

    Args:
        places: for each place in a window the values there, (images, down, across, channels).
        bias: (channels,).
        window: which.

    Returns:
        (images, down, across, channels), uint8: places are counted row by row, as TensorFlow does;
        one more than there are is none, where the ReLU lets nothing pass. And the values.
    """
    largest = reduce(tf.maximum, places)
    y = largest + bias
    first = tf.fill(tf.shape(y), tf.constant(len(places) - 1, tf.uint8))
    for number, values in reversed([*enumerate(places[:-1])]):
        first = tf.where(values == largest, tf.constant(number, tf.uint8), first)
    if window.relu:
        first = tf.where(y > 0, first, tf.constant(len(places), tf.uint8))
        y = tf.nn.relu(y)
    return first, y


def _to_first_largest(
    first: tf.Tensor, gradient: tf.Tensor, window: Window
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the gradients of what is pooled and of the bias.

    Of a window, all is its first largest value's. `first` is what `_largest` returned, `gradient`
    that of the values.
    """
    count = window.height * window.width
    numbers = tf.reshape(tf.range(count), [1, 1, window.height, 1, window.width, 1])
    here = first[:, :, None, :, None, :] == tf.cast(numbers, tf.uint8)
    inside = tf.where(here, gradient[:, :, None, :, None, :], 0)
    _, down, across, channels = gradient.shape
    inside = tf.reshape(inside, [-1, down * window.height, across * window.width, channels])
    passed = tf.where(first < tf.constant(count, tf.uint8), gradient, 0)
    below, beside = window.rest
    return (
        tf.pad(inside, [[0, 0], [0, below], [0, beside], [0, 0]]),
        tf.reduce_sum(passed, axis=[0, 1, 2]),
    )


def _places(x: tf.Tensor, window: Window) -> list[tf.Tensor]:
    """Return for each place in a window the values of x there, (images, down, across, channels)."""
    _, rows, columns, channels = x.shape
    down, across = rows // window.height, columns // window.width
    inside = x[:, : down * window.height, : across * window.width]
    windows = tf.reshape(inside, [-1, down, window.height, across, window.width, channels])
    return [windows[:, :, i, :, j] for i in range(window.height) for j in range(window.width)]


def _places_convolved(
    images: tf.Tensor, filters: tf.Tensor, window: Window, padding: str
) -> list[tf.Tensor]:
    """Return the `_places` of a convolution of images, (images, rows, columns, 1)."""
    rows, columns, _, _ = filters.shape
    if padding == "SAME":
        around = [[(size - 1) // 2, size // 2] for size in (rows, columns)]
        images = tf.pad(images, [[0, 0], *around, [0, 0]])
    # where the windows begin, as many rows and columns as are left of them
    down = window.height * ((images.shape[1] - rows + 1) // window.height)
    across = window.width * ((images.shape[2] - columns + 1) // window.width)

    def value(i: int, j: int) -> tf.Tensor:
        return sum(
            images[:, i + a : i + a + down : window.height, j + b : j + b + across : window.width]
            * filters[a, b, 0]
            for a in range(rows)
            for b in range(columns)
        )

    return [value(i, j) for i in range(window.height) for j in range(window.width)]


_compiled = partial(tf.function, jit_compile=True, autograph=False)
_forward = _compiled(lambda x, bias, window: _largest(_places(x, window), bias, window))
_forward_convolved = _compiled(
    lambda images, filters, bias, window, padding: _largest(
        _places_convolved(images, filters, window, padding), bias, window
    )
)
_backward = _compiled(_to_first_largest)

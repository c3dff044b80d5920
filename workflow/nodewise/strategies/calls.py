"""Functions of ours inside TensorFlow's graphs, and the errors that they raise there."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import tensorflow as tf

from nodewise.strategies.direct import Floats


class Calls:
    """Calls of functions that send and receive.

    Within a graph they are made in the order in which they were written, on every worker the same:
    a message does not tell whose it is.
    """

    def __init__(self) -> None:
        self._lost: OSError | None = None
        self._last: tf.Operation | None = None

    def __call__(self, function: Callable[[Floats], Floats], values: tf.Tensor) -> tf.Tensor:
        """Return what `function` makes of `values`, float32, each time that the graph runs."""

        def call(values: Floats) -> Floats:
            try:
                return function(values)
            except OSError as error:
                self._lost = error
                raise

        graph = tf.compat.v1.get_default_graph()
        before = [self._last] if self._last is not None and self._last.graph is graph else []
        with tf.control_dependencies(before):
            found = tf.numpy_function(call, [values], tf.float32)
        self._last = found.op
        return found

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Let a peer that is gone or stuck be the error that it is: TensorFlow raises another."""
        try:
            yield
        except tf.errors.UnknownError:
            if self._lost is None:
                raise
            raise self._lost from None

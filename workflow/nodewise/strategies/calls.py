"""Calls of Python functions that send and receive, from inside TensorFlow's graphs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import tensorflow as tf

from nodewise.strategies.transport import Floats


class Calls:
    """Calls of such functions, in the order in which they were traced.

    All workers trace them in the same order. They need it: a message does not say which call it
    belongs to.
    """

    def __init__(self) -> None:
        self._lost: OSError | None = None
        self._last: tf.Operation | None = None

    def __call__(self, function: Callable[[Floats], Floats], values: tf.Tensor) -> tf.Tensor:
        """Return `function(values)`, float32; it is called each time that the graph runs."""

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
    def raising_lost_peer(self) -> Iterator[None]:
        """Raise the OSError of a peer that is gone or stuck, not TensorFlow's UnknownError for it.

        A context manager, and a decorator of functions that run such a graph.
        """
        try:
            yield
        except tf.errors.UnknownError:
            if self._lost is None:
                raise
            raise self._lost from None

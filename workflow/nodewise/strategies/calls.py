"""Call Python functions that send and receive from inside TensorFlow graphs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf
from numpy.typing import NDArray

from nodewise.strategies.replica import Exchange

Array = NDArray[Any]


class Calls:
    """Runs Python functions inside graphs, in the order in which they were traced.

    All workers must trace them in the same order, because a message does not say which call it
    belongs to.
    """

    def __init__(self) -> None:
        self._error: Exception | None = None
        self._last: tf.Operation | None = None

    def call(self, function: Callable[[Array], Array], values: tf.Tensor) -> tf.Tensor:
        """Return `function(values)`, in the type of `values`.

        The function is called each time that the graph runs.
        """

        def call(values: Array) -> Array:
            try:
                return function(values)
            except Exception as error:
                self._error = error
                raise

        graph = tf.compat.v1.get_default_graph()
        before = [self._last] if self._last is not None and self._last.graph is graph else []
        with tf.control_dependencies(before):
            found = tf.numpy_function(call, [values], values.dtype)
        self._last = found.op
        return found

    @contextmanager
    def raising(self) -> Iterator[None]:
        """Raise the function's own error instead of TensorFlow's error for it."""
        try:
            yield
        except tf.errors.OpError:
            if self._error is None:
                raise
            raise self._error from None


class CallsExchange(Calls, Exchange):
    """An exchange made of Python functions that the graph of a step calls."""

    def sum(self, values: tf.Tensor) -> tf.Tensor:
        return tf.ensure_shape(self.call(self.total, values), values.shape)

    def total(self, values: Array) -> Array:
        """Return the sum of `values`, of the same shape on every worker. Collective."""
        raise NotImplementedError

    def concat(self, rows: tf.Tensor) -> tf.Tensor:
        return tf.ensure_shape(self.call(self.gathered, rows), [None, *rows.shape[1:]])

    def gathered(self, own: Array) -> Array:
        """Return the rows of all workers, in the order of ranks. Collective."""
        raise NotImplementedError

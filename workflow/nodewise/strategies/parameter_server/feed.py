"""Hand a worker's batches to the steps that its TensorFlow server runs, and their results back."""

import queue
from typing import TypeAlias

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

Result: TypeAlias = tuple[NDArray[np.float32], NDArray[np.float32], int]
"""A step's mean loss, the model's outputs, and how many updates came between pull and push."""


class Feed:
    """Connects the worker's loop with the steps that run in the same process.

    A graph calls a Python function by a token, which the function gets when a graph with it is
    traced. The coordinator traces the step; on another worker the step finds the functions of that
    worker, because each worker traces the same two functions first.
    """

    def __init__(self, x: tf.TensorSpec, y: tf.TensorSpec) -> None:
        self._x, self._y = x, y
        self._batches: queue.SimpleQueue[tuple[tf.Tensor, tf.Tensor]] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[Result | Exception] = queue.SimpleQueue()
        # the tokens are valid as long as this graph exists
        self._traced = tf.function(self._functions, autograph=False).get_concrete_function()
        called = [op for op in self._traced.graph.get_operations() if op.type == "PyFunc"]
        self._tokens = {op.name: op.get_attr("token") for op in called}
        self.tokens = b" ".join(self._tokens.values())

    def _functions(self) -> None:
        tf.numpy_function(self._take, [], [self._x.dtype, self._y.dtype], name="take")
        results = [tf.zeros([]), tf.zeros([]), tf.zeros([], tf.int64)]
        tf.numpy_function(self._finish, results, [], name="finish")

    def train(self, x: tf.Tensor, y: tf.Tensor) -> Result:
        """Give a batch to the worker's next step; return that step's result.

        Raises:
            Exception: the error with which the coordinator failed.
        """
        self._batches.put((x, y))
        result = self._results.get()
        if isinstance(result, Exception):
            raise result
        return result

    def fail(self, error: Exception) -> None:
        """Make the worker's current or next step fail with `error`."""
        self._results.put(error)

    def take(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Inside a step: wait for the worker's batch and return it."""
        kinds = [self._x.dtype, self._y.dtype]
        x, y = tf.raw_ops.PyFunc(input=[], token=self._tokens["take"], Tout=kinds)
        return tf.ensure_shape(x, self._x.shape), tf.ensure_shape(y, self._y.shape)

    def finish(self, loss: tf.Tensor, outputs: tf.Tensor, staleness: tf.Tensor) -> tf.Operation:
        """Inside a step: give the worker its result."""
        result = [loss, outputs, staleness]
        return tf.raw_ops.PyFunc(input=result, token=self._tokens["finish"], Tout=[])

    def _take(self) -> tuple[NDArray[np.generic], NDArray[np.generic]]:
        x, y = self._batches.get()
        return x.numpy(), y.numpy()

    def _finish(
        self, loss: NDArray[np.float32], outputs: NDArray[np.float32], staleness: np.int64
    ) -> None:
        self._results.put((loss.copy(), outputs.copy(), int(staleness)))

"""A queue that hands a worker's batches to the steps that its TensorFlow server runs."""

import queue
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray


class StepResult(NamedTuple):
    """The result of a dispatched step."""

    loss: NDArray[np.float32]
    outputs: NDArray[np.float32]
    staleness: int


class StepQueue:
    """Hands batches from the worker's loop to steps that its server runs in the same process.

    TensorFlow graphs call Python functions by tokens. The coordinator traces the step; on another
    worker the step finds that worker's functions if they have the same tokens there.
    """

    def __init__(self, x: tf.Tensor, y: tf.Tensor, patience_s: float) -> None:
        self._patience_s = patience_s
        self._asked: queue.SimpleQueue[tuple[tf.Tensor, tf.Tensor] | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[StepResult | Exception] = queue.SimpleQueue()
        self._x, self._y = (tf.TensorSpec.from_tensor(tensor) for tensor in (x, y))
        calls = tf.function(self._calls, autograph=False).get_concrete_function()
        self._kept = calls  # the tokens are valid as long as this object exists
        called = [op for op in calls.graph.get_operations() if op.type == "PyFunc"]
        self._tokens = {op.name: op.get_attr("token") for op in called}
        self.tokens = b" ".join(self._tokens.values())

    def _calls(self) -> None:
        """Register the two Python functions."""
        tf.numpy_function(self._take, [], [tf.bool, self._x.dtype, self._y.dtype], name="take")
        made = [tf.zeros([]), tf.zeros([]), tf.zeros([], tf.int64)]
        tf.numpy_function(self._finish, made, [], name="finish")

    def train(self, x: tf.Tensor, y: tf.Tensor) -> StepResult:
        """Provide a batch for the next step dispatched to this worker; return that step's result.

        Raises:
            TimeoutError: no step was done in time.
            Exception: the error with which the coordinator failed.
        """
        self._asked.put((x, y))
        try:
            done = self._done.get(timeout=self._patience_s)
        except queue.Empty:
            raise TimeoutError(f"no step was done within {self._patience_s:g} s") from None
        if isinstance(done, Exception):
            raise done
        return done

    def fail(self, error: Exception) -> None:
        """Make the worker's current or next step fail with `error`."""
        self._done.put(error)

    def close(self) -> None:
        """Let dispatched steps end without a batch from now on."""
        self._asked.put(None)

    def open(self) -> None:
        """Let dispatched steps wait for a batch again. No step may be running."""
        self._asked.get()

    def take(self) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Inside a step: return whether there is a batch, and the worker's batch."""
        kinds = [tf.bool, self._x.dtype, self._y.dtype]
        there, x, y = tf.raw_ops.PyFunc(input=[], token=self._tokens["take"], Tout=kinds)
        x, y = tf.ensure_shape(x, self._x.shape), tf.ensure_shape(y, self._y.shape)
        return tf.ensure_shape(there, []), x, y

    def finish(self, loss: tf.Tensor, outputs: tf.Tensor, staleness: tf.Tensor) -> tf.Operation:
        """Inside a step: tell the worker that the step is done."""
        given = [loss, outputs, staleness]
        return tf.raw_ops.PyFunc(input=given, token=self._tokens["finish"], Tout=[])

    def _take(self) -> tuple[np.bool_, NDArray[np.generic], NDArray[np.generic]]:
        batch = self._asked.get()
        if batch is None:
            self._asked.put(None)
            x, y = (np.zeros(one.shape, one.dtype.as_numpy_dtype) for one in (self._x, self._y))
            return np.False_, x, y
        return np.True_, batch[0].numpy(), batch[1].numpy()

    def _finish(
        self, loss: NDArray[np.float32], outputs: NDArray[np.float32], staleness: np.int64
    ) -> None:
        self._done.put(StepResult(loss.copy(), outputs.copy(), int(staleness)))

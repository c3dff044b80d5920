"""An all-reduce through one driver: worker 0 sums all workers' arrays and sends the sum back."""

import numpy as np
import tensorflow as tf

from nodewise.strategies import api
from nodewise.strategies.calls import Array, CallsExchange
from nodewise.strategies.transport import Peers


class Star(CallsExchange):
    """The connections between worker 0, the driver, and the other workers."""

    def __init__(self, job: api.Job) -> None:
        """Connect. Collective.

        Afterwards the workers' ports are free again, for a TensorFlow server.
        """
        super().__init__()
        self._peers = Peers(job.rank, job.addresses[: job.size], timeout_s=job.patience_s)

    def total(self, values: Array) -> Array:
        """Return the sum of `values`, float32.

        With arrays of S bytes, every worker sends S to the driver, and the driver sends S to each
        worker.
        """
        if self._peers.rank > 0:
            self._peers.send(0, values.data)
            total: Array = self._peers.receive_array(0)
        else:
            others = range(1, self._peers.size)
            total = values.copy()
            for peer in others:  # always in this order, so that the rounding does not change
                total += self._peers.receive_array(peer)
            for peer in others:
                self._peers.send(peer, total.data)
        self._peers.flush()
        return total

    def concat(self, rows: tf.Tensor) -> tf.Tensor:
        return tf.ensure_shape(self._calls(self._gathered, rows), [None, *rows.shape[1:]])

    def _gathered(self, own: Array) -> Array:
        messages = self._peers.exchange(own.tobytes())
        rows = np.concatenate([np.frombuffer(one, own.dtype) for one in messages])
        return rows.reshape(-1, *own.shape[1:])

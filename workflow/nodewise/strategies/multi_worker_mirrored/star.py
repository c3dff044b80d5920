"""An all-reduce through one driver: worker 0 sums the arrays of all and sends the sum back."""

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from nodewise.strategies import api
from nodewise.strategies.calls import Calls, concat_by
from nodewise.strategies.replica import Exchange
from nodewise.strategies.transport import Peers


class Star(Exchange):
    """The connections between worker 0, the driver, and the other workers."""

    def __init__(self, job: api.Job) -> None:
        """Connect. Collective.

        The workers' ports are free again after this, for a server of TensorFlow.
        """
        self._peers = Peers(job.rank, job.addresses[: job.size], timeout_s=job.patience_s)
        self._calls = Calls()
        self.raising = self._calls.raising

    def sum(self, values: tf.Tensor) -> tf.Tensor:
        """Return the sum of `values`, float32 (entries,) on every worker, over the workers.

        Of S bytes every worker sends S; the driver sends S to each of them.
        """
        return tf.ensure_shape(self._calls(self._total, values), values.shape)

    def _total(self, own: NDArray[np.float32]) -> NDArray[np.float32]:
        if self._peers.rank > 0:
            self._peers.send(0, own.data)
            total = self._peers.receive_array(0)
        else:
            others = range(1, self._peers.size)
            total = own.copy()
            for peer in others:  # in this order always, so that sums are rounded alike
                total += self._peers.receive_array(peer)
            for peer in others:
                self._peers.send(peer, total.data)
        self._peers.flush()
        return total

    def concat(self, rows: tf.Tensor) -> tf.Tensor:
        return concat_by(self._peers, self._calls, rows)

"""An all-reduce through one driver: worker 0 sums all workers' arrays and sends the sum back."""

import struct

import numpy as np

from nodewise.strategies import api
from nodewise.strategies.calls import Array, CallsExchange


class StarAllReduce(CallsExchange):
    """The connections between worker 0, the driver, and the other workers."""

    def __init__(self, job: api.Job) -> None:
        """Connect. Collective."""
        super().__init__()
        self._peers = job.connect()

    def total(self, values: Array) -> Array:
        """Return the sum of `values`, float32.

        With arrays of S bytes, every worker sends S to the driver, and the driver sends S to each
        worker.
        """
        if self._peers.rank > 0:
            self._peers.send(0, values.data)
            total: Array = self._peers.receive_array(0, values.size)
        else:
            others = range(1, self._peers.size)
            total = values.copy()
            for peer in others:  # always in this order, so that the rounding does not change
                total += self._peers.receive_array(peer, values.size)
            for peer in others:
                self._peers.send(peer, total.data)
        self._peers.flush()
        return total

    def gathered(self, own: Array) -> Array:
        counts = self._peers.exchange(struct.pack(">Q", own.nbytes))
        longest = max(struct.unpack(">Q", count)[0] for count in counts)
        messages = self._peers.exchange(own.tobytes(), at_most=longest)
        return np.frombuffer(b"".join(messages), own.dtype).reshape(-1, *own.shape[1:])

"""Decentralised SGD with compressed gradients: everybody sends a little to everybody, no server.

Every worker sends a compressed form of its gradient to all others, the same bytes to each. What the
compression leaves out, the residual, is added to its next gradient: nothing is lost, small entries
come later (Strom, "Scalable distributed DNN training using commodity GPU cloud computing",
Interspeech 2015). All workers apply the mean of the same decoded updates, their own included, in
the order of ranks: the replicas stay equal, bit by bit.

Of a message of M bytes a worker sends (n−1)·M a step. For float32 gradients of S bytes a ring
all-reduce sends 2(n−1)/n·S; float16, with M = S/2, sends less than that up to three workers only.
"""

import struct

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from nodewise.strategies import api
from nodewise.strategies.compressed_sgd import CompressedSgd, compression
from nodewise.strategies.transport import LENGTH_BYTES, Peers

_EXAMPLES = struct.Struct(">I")


class Strategy(api.Strategy):
    """Train on `job.size` workers, each connected to all others.

    What is compressed is the mean gradient over the worker's own examples; updates are weighted by
    examples. In the first `warmup_steps` steps only the first `warmup_nodes` workers' updates
    count, the mean over their examples; the others send none, and keep nothing of their gradients.
    """

    def __init__(self, job: api.Job) -> None:
        if not isinstance(job.options, CompressedSgd):
            raise TypeError("compressed_sgd takes options of its own")
        self._options = job.options
        self._job = job
        self._replica = api.Replica(job)
        self.model = self._replica.model
        self.optimizer = self._replica.optimizer
        self._codec = codec_of(job.options, sum(v.size for v in self.weights()))
        self._residual = np.zeros(self._codec.size, np.float32)
        self._steps = 0
        self._bytes_counted: list[float] = []
        self._peers = Peers(job.rank, job.addresses, timeout_s=job.patience_s)

    def step(self, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        gradient, scores = self._replica.scored_gradient(x, y)
        self._replica.apply(self._mean(gradient, x.shape[0]))
        return scores

    def split_step(self, x: tf.Tensor, y: tf.Tensor) -> api.StepTimes:
        """Train one step in parts; encoding and decoding belong to communicating."""
        return self._replica.split_step(
            x, y, self.barrier, lambda gradient: self._mean(gradient, x.shape[0])
        )

    def _mean(self, gradient: tf.Tensor, examples: int) -> NDArray[np.float32]:
        """Return the mean of all updates in place of the sum of the `gradient`s. Collective."""
        return self._decoded(self._peers.exchange(self._message(gradient.numpy(), examples)))

    def _message(self, gradient: NDArray[np.float32], examples: int) -> bytes:
        """Return what tells the others of this step's gradient: examples, and the update of them.

        Raises:
            FloatingPointError: the gradient is not finite, and would never leave the residual.
        """
        self._steps += 1
        counts = self._steps > self._options.warmup_steps
        if not counts and self._job.rank >= self._options.warmup_nodes:
            return _EXAMPLES.pack(0)
        self._residual += gradient * (self._job.global_batch / examples)
        if not np.isfinite(self._residual).all():
            raise FloatingPointError("the gradient is not finite, so that it cannot be compressed")
        return _EXAMPLES.pack(examples) + self._codec.encode(self._residual)

    def _decoded(self, messages: list[bytes | bytearray]) -> NDArray[np.float32]:
        """Return the mean of the updates; keep what is left of the own gradient."""
        own = messages[self._job.rank]
        self._bytes_counted.append((self._job.size - 1) * (LENGTH_BYTES + len(own)))
        examples = [_EXAMPLES.unpack_from(message)[0] for message in messages]
        total = np.zeros(self._codec.size, np.float32)
        for rank, message in enumerate(messages):
            if examples[rank]:
                update = self._codec.decode(memoryview(message)[_EXAMPLES.size :])
                total[update.indices] += update.values * np.float32(examples[rank] / sum(examples))
                if rank == self._job.rank:  # seen as the others see it
                    self._residual[update.indices] -= update.values
        return total

    def barrier(self) -> None:
        self._peers.exchange(b"")

    def agree(self) -> None:
        statistics = api.moving_statistics(self.model)
        messages = self._peers.exchange(api.flat(statistics).numpy().tobytes())
        everyone = [np.frombuffer(message, np.float32) for message in messages]
        api.assign(statistics, np.mean(everyone, axis=0))

    def observations(self) -> dict[str, list[float]]:
        """Return `bytes_counted`: bytes that this worker handed to the wire, per step."""
        noted, self._bytes_counted = self._bytes_counted, []
        return {"bytes_counted": noted}

    def state(self) -> list[np.ndarray]:
        return [*super().state(), self._residual.copy(), np.array(self._steps)]

    def restore(self, state: list[np.ndarray]) -> None:
        *variables, residual, steps = state
        super().restore(variables)
        self._residual, self._steps = residual.copy(), int(steps)


def codec_of(options: CompressedSgd, size: int) -> compression.Codec:
    """Return the codec that `options` choose, for `size` entries."""
    if options.method == "threshold":
        return compression.Threshold(size, options.threshold)
    if options.method == "top_k":
        return compression.TopK(size, options.share, options.values)
    return compression.Half(size)

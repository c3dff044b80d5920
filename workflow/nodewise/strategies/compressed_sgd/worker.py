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
from typing import cast

import numpy as np
import tensorflow as tf

from nodewise.core.errors import RefusedError
from nodewise.models.contents import examples_in
from nodewise.strategies import api, replica
from nodewise.strategies.calls import Array, CallsExchange
from nodewise.strategies.compressed_sgd import CompressedSgd, compression
from nodewise.strategies.transport import LENGTH_BYTES, Floats, Peers

_EXAMPLES = struct.Struct(">I")


class Updates(CallsExchange):
    """The exchange of compressed gradients, and of whole arrays where that is meant."""

    keeps_rows = False

    def __init__(self, job: api.Job) -> None:
        super().__init__()
        self._options = cast(CompressedSgd, job.options)
        self._job = job
        self._peers = Peers(job.rank, job.addresses, timeout_s=job.patience_s)
        self._codec: compression.Codec | None = None
        self._graph: tf.Graph | None = None  # of the step that was traced last
        self.examples = 0  # of the worker's own batch
        self.residual = np.zeros(0, np.float32)
        self.steps = 0
        self.bytes_counted: list[float] = []

    def total(self, values: Array) -> Array:
        """Return the sum of `values`, float32 and uncompressed."""
        everyone = self._peers.exchange(values.tobytes())
        total: Array = np.sum([np.frombuffer(one, np.float32) for one in everyone], axis=0)
        return total

    def gradients(self, own: list[tf.Tensor]) -> list[tf.Tensor]:
        """Return the mean updates; the largest entries are those of the whole gradient.

        Raises:
            RefusedError: there is another gradient in the step.
        """
        graph = tf.compat.v1.get_default_graph()
        if graph is self._graph:
            raise RefusedError(
                "the model applies several gradients in a step, and the residual is that of one"
            )
        self._graph = graph
        gradient = api.flat(own)
        return api.unflat(tf.ensure_shape(self._calls(self._mean, gradient), gradient.shape), own)

    def _mean(self, gradient: Floats) -> Floats:
        """Return the mean of all updates in place of the sum of the `gradient`s. Collective."""
        if self._codec is None:
            self._codec = codec_of(self._options, gradient.size)
        if self.residual.size != gradient.size:
            self.residual = np.zeros_like(gradient)
        messages = self._peers.exchange(self._message(self._codec, gradient))
        return self._decoded(self._codec, messages)

    def _message(self, codec: compression.Codec, gradient: Floats) -> bytes:
        """Return what tells the others of this step's gradient: examples, and the update of them.

        Raises:
            FloatingPointError: the gradient is not finite, and would never leave the residual.
        """
        self.steps += 1
        counts = self.steps > self._options.warmup_steps
        if not counts and self._job.rank >= self._options.warmup_nodes:
            return _EXAMPLES.pack(0)
        self.residual += gradient * (self._job.global_batch / self.examples)
        if not np.isfinite(self.residual).all():
            raise FloatingPointError("the gradient is not finite, so that it cannot be compressed")
        return _EXAMPLES.pack(self.examples) + codec.encode(self.residual)

    def _decoded(self, codec: compression.Codec, messages: list[bytes | bytearray]) -> Floats:
        """Return the mean of the updates; keep what is left of the own gradient."""
        own = messages[self._job.rank]
        self.bytes_counted.append((self._job.size - 1) * (LENGTH_BYTES + len(own)))
        examples = [_EXAMPLES.unpack_from(message)[0] for message in messages]
        total = np.zeros(codec.size, np.float32)
        for rank, message in enumerate(messages):
            if examples[rank]:
                update = codec.decode(memoryview(message)[_EXAMPLES.size :])
                total[update.indices] += update.values * np.float32(examples[rank] / sum(examples))
                if rank == self._job.rank:  # seen as the others see it
                    self.residual[update.indices] -= update.values
        return total


class Strategy(replica.Strategy):
    """Train on `job.size` workers, each connected to all others.

    What is compressed is the mean gradient over the worker's own examples; updates are weighted by
    examples. In the first `warmup_steps` steps only the first `warmup_nodes` workers' updates
    count, the mean over their examples; the others send none, and keep nothing of their gradients.
    """

    def __init__(self, job: api.Job) -> None:
        self._updates = Updates(job)
        super().__init__(job, self._updates)

    def step(self, batch: api.Batch) -> api.Logs:
        self._updates.examples = examples_in(batch)
        return super().step(batch)

    def split_step(self, batch: api.Batch) -> api.StepTimes:
        """Train one step in parts; encoding and decoding belong to communicating."""
        self._updates.examples = examples_in(batch)
        return super().split_step(batch)

    def barrier(self) -> None:
        self._updates.total(np.zeros(0, np.float32))

    def observations(self) -> dict[str, list[float]]:
        """Return `bytes_counted`: bytes that this worker handed to the wire, per step."""
        noted, self._updates.bytes_counted = self._updates.bytes_counted, []
        return {"bytes_counted": noted}

    def state(self) -> list[np.ndarray]:
        return [*super().state(), self._updates.residual.copy(), np.array(self._updates.steps)]

    def restore(self, state: list[np.ndarray]) -> None:
        *variables, residual, steps = state
        super().restore(variables)
        self._updates.residual, self._updates.steps = residual.copy(), int(steps)


def codec_of(options: CompressedSgd, size: int) -> compression.Codec:
    """Return the codec that `options` choose, for `size` entries."""
    if options.method == "threshold":
        return compression.Threshold(size, options.threshold)
    if options.method == "top_k":
        return compression.TopK(size, options.share, options.values)
    return compression.Half(size)

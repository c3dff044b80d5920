"""Decentralised SGD with compressed gradients: every worker sends to every other, without servers.

Every worker sends a compressed form of its gradient to all others, the same bytes to each. What the
compression leaves out, the residual, is added to the worker's next gradient: nothing is lost, small
entries only arrive later (Strom, "Scalable distributed DNN training using commodity GPU cloud
computing", Interspeech 2015). All workers, in the order of ranks, add up the same decoded updates,
including their own, and apply their mean: the replicas stay equal in every bit.

With messages of M bytes, a worker sends (n−1)·M per step. With float32 gradients of S bytes, a ring
all-reduce sends 2(n−1)/n·S. The method float16, with M = S/2, sends less than that only up to three
workers.
"""

import struct
from collections.abc import Callable
from typing import cast

import keras
import numpy as np
import tensorflow as tf

from nodewise.core.errors import RefusedError
from nodewise.models.contents import examples_in, optimizers_of
from nodewise.strategies import api, replica
from nodewise.strategies.calls import Array, CallsExchange
from nodewise.strategies.compressed_sgd import CompressedSgd, compression
from nodewise.strategies.transport import LENGTH_BYTES, SHORT, Floats

_EXAMPLES = struct.Struct(">I")


class Updates(CallsExchange):
    """The exchange of compressed gradients, and of whole arrays where no compression is wanted."""

    keeps_rows = False

    def __init__(self, job: api.Job, note: Callable[[str, float], None]) -> None:
        super().__init__()
        self._options = cast(CompressedSgd, job.options)
        self._job, self._note = job, note
        self._peers = job.connect()
        self._codec: compression.Codec | None = None
        self._graph: tf.Graph | None = None  # of the step that was traced last
        self.examples = 0  # in the worker's own batch
        self.residual = np.zeros(0, np.float32)
        self.steps = 0

    def total(self, values: Array) -> Array:
        """Return the sum of `values`, float32, over all workers. They are not compressed."""
        return self._peers.total(values)

    def gradients(self, own: list[tf.Tensor]) -> list[tf.Tensor]:
        """Return the mean updates. The gradients are compressed as one vector.

        Raises:
            RefusedError: the step applies more than one gradient.
        """
        graph = tf.compat.v1.get_default_graph()
        if graph is self._graph:
            raise RefusedError(
                "the model applies several gradients in a step, and the residual is that of one"
            )
        self._graph = graph
        gradient = api.flat(own)
        return api.unflat(tf.ensure_shape(self.call(self._mean, gradient), gradient.shape), own)

    def _mean(self, gradient: Floats) -> Floats:
        """Return the mean of all workers' updates, in place of the sum of gradients. Collective."""
        if self._codec is None:
            self._codec = codec_of(self._options, gradient.size)
        if self.residual.size != gradient.size:
            self.residual = np.zeros_like(gradient)
        own = self._message(self._codec, gradient)
        self._note("bytes_counted", (self._job.size - 1) * (LENGTH_BYTES + len(own)))
        # no codec takes twice as many bytes as the gradient itself
        messages = self._peers.exchange(own, at_most=SHORT + 2 * gradient.nbytes)
        examples = [_EXAMPLES.unpack_from(message)[0] for message in messages]
        total = np.zeros_like(gradient)
        for rank, message in enumerate(messages):
            if examples[rank]:
                update = self._codec.decode(memoryview(message)[_EXAMPLES.size :])
                total[update.indices] += update.values * np.float32(examples[rank] / sum(examples))
                if rank == self._job.rank:  # what the others decode, not what was encoded
                    self.residual[update.indices] -= update.values
        return total

    def _message(self, codec: compression.Codec, gradient: Floats) -> bytes:
        """Return this worker's message: its number of examples, and its update encoded.

        A worker whose update does not count in this step only sends the number 0.

        Raises:
            FloatingPointError: the gradient is not finite, and would never leave the residual.
        """
        self.steps += 1
        options = self._options
        if self.steps <= options.warmup_steps and self._job.rank >= options.warmup_nodes:
            return _EXAMPLES.pack(0)
        self.residual += gradient * (self._job.global_batch / self.examples)
        if not np.isfinite(self.residual).all():
            raise FloatingPointError("the gradient is not finite, so that it cannot be compressed")
        return _EXAMPLES.pack(self.examples) + codec.encode(self.residual)


class Strategy(replica.Strategy):
    """Trains on `job.size` workers, each connected to all others.

    The mean gradient over a worker's own examples is compressed, and updates are weighted by
    numbers of examples. In the first `warmup_steps` steps only the updates of the first
    `warmup_nodes` workers count; the mean is over their examples. The other workers send no update,
    and their gradients do not go into the residual. A worker notes the bytes that it sends in each
    step (`bytes_counted`).
    """

    def __init__(self, job: api.Job) -> None:
        self._updates = Updates(job, self.note)
        super().__init__(job, self._updates)
        for one in optimizers_of(self.model):
            if isinstance(one, keras.optimizers.LossScaleOptimizer) or one.loss_scale_factor:
                raise RefusedError("the optimizer scales the loss, which residuals do not know of")

    def step(self, batch: api.Batch) -> api.Logs:
        self._updates.examples = examples_in(batch)
        return super().step(batch)

    def split_step(self, batch: api.Batch) -> api.StepTimes:
        """Train one step in parts; encoding and decoding count as communicating."""
        self._updates.examples = examples_in(batch)
        return super().split_step(batch)

    def state(self) -> list[np.ndarray]:
        return [*super().state(), self._updates.residual.copy(), np.array(self._updates.steps)]

    def restore(self, state: list[np.ndarray]) -> None:
        *variables, residual, steps = state
        super().restore(variables)
        self._updates.residual, self._updates.steps = residual.copy(), int(steps)


def codec_of(options: CompressedSgd, size: int) -> compression.Codec:
    """Return the codec chosen by `options`, for `size` entries."""
    if options.method == "threshold":
        return compression.Threshold(size, options.threshold)
    if options.method == "top_k":
        return compression.TopK(size, options.share, options.values)
    return compression.Half(size)

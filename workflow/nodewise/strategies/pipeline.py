"""Train a model in stages, one per node of a pipeline: for model_parallel and hybrid.

Training is synchronous: a step equals that of a single process with the global batch. The batch is
split into micro-batches that fill the stages like a pipeline: all forward passes, then all backward
passes; gradients are summed and applied in one update (GPipe: Huang et al., arXiv:1811.06965). With
one micro-batch, one stage works while the others wait. If there are several pipelines, every stage
sums its gradients with the same stage of the others before the update.

Batch normalisation sees one micro-batch at a time, as it would see a worker's part of the batch.
"""

import math
import select
from typing import NamedTuple, cast

import keras
import numpy as np
import tensorflow as tf

from nodewise.models.cut import cut
from nodewise.strategies import api, parts
from nodewise.strategies.options import Pipelined


def check(job: api.Job) -> None:
    """Check that the job's model can be trained in stages; raise RefusedError if not."""
    _stages(job.build(), job)


def _stages(model: keras.Model, job: api.Job) -> list[keras.Model]:
    parts.check(model, job.batch)
    return cut(model, job.size // cast(Pipelined, job.options).pipelines)


class _Pass(NamedTuple):
    """The forward pass of one micro-batch, kept for its backward pass."""

    tape: tf.GradientTape
    given: tf.Tensor
    made: tf.Tensor


class Pipeline(api.Strategy):
    """Trains one stage of the model; every batch is the global one.

    There may be several pipelines, each with its part of the global batch: worker `rank` belongs to
    pipeline `rank` // stages. All workers build the whole model, and start from the weights of the
    first pipeline. Each worker computes only its own stage, and keeps the optimizer's state only
    for that stage. It notes the share of each step in which it waited for other stages or its link
    (`bubble_share`).
    """

    replicas_agree = False

    def __init__(self, job: api.Job) -> None:
        super().__init__(job)
        chosen = cast(Pipelined, job.options)
        keras.utils.set_random_seed(job.seed)
        self.model = job.build()
        self._stages = _stages(self.model, job)
        pipeline, self._place = divmod(job.rank, len(self._stages))
        api.set_dropout_seed(self.model, pipeline)
        rows = np.array_split(np.arange(job.global_batch), chosen.pipelines)[pipeline]
        micro_batches = np.array_split(rows, chosen.micro_batches)
        self._micro_batches = [slice(part[0], part[-1] + 1) for part in micro_batches]
        self._stage = self._stages[self._place]
        self._peers = job.connect()
        self.agree()  # an initializer may have no seed
        self._trained = [variable.value for variable in self._stage.trainable_variables]
        self.optimizer = self.model.optimizer
        self.optimizer.build(self._stage.trainable_variables)
        self._last = self._place == len(self._stages) - 1
        self._before_trains = any(s.trainable_variables for s in self._stages[: self._place])
        self._same_stage = range(self._place, job.size, len(self._stages))  # in all pipelines
        self._forward = tf.function(self._stage_forward, autograph=False)
        self._add = tf.function(lambda *passes: [*map(tf.add, *passes)], autograph=False)
        self._flat = tf.function(api.flat, autograph=False)
        self._unflat = tf.function(lambda total: api.unflat(total, self._trained), autograph=False)
        self._apply = tf.function(self._stage_apply, autograph=False)

    def _stage_forward(self, x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, api.Logs]:
        """Return the stage's output and its logs.

        The last stage returns its part of the loss instead of an output. Only its logs are not
        empty.
        """
        made = self._stage(x, training=True)
        if not self._last:
            return made, {}
        loss = self.model.compute_loss(None, y, made)
        share = x.shape[0] / self._job.global_batch
        scaled = self.optimizer.scale_loss(loss * share)
        return scaled, parts.scored(self.model, y, made, loss)

    def _stage_apply(self, gradients: list[tf.Tensor]) -> None:
        # a sparse gradient may have a row twice, and Adam would square both instead of their sum
        dense = [tf.convert_to_tensor(gradient) for gradient in gradients]
        self.optimizer.apply(dense, self._stage.trainable_variables)

    def _train(self, batch: api.Batch) -> tuple[api.Logs, api.StepTimes]:
        x, y = batch
        timer = api.StepTimer()
        logs: api.Logs = {}
        passes = []
        for part in self._micro_batches:
            kept, logs = self._pass_forward(x[part], y[part], timer)
            passes.append(kept)
        gradients: list[tf.Tensor] = []
        if self._trained or self._before_trains:  # otherwise nobody needs this stage's gradient
            while passes:
                own = self._pass_backward(passes.pop(), timer)
                gradients = self._add(gradients, own) if gradients else own
        if self._trained and len(self._same_stage) > 1:
            flat = self._flat(gradients).numpy()
            timer.end("compute")
            total = self._peers.total(flat, self._same_stage)
            timer.end("communicate")
            gradients = self._unflat(tf.constant(total))
        timer.end("compute")
        self._peers.flush()
        timer.end("communicate")
        if self._trained:
            self._apply(gradients)
        timer.end("apply")
        return logs, timer.times()

    def _pass_forward(
        self, x: tf.Tensor, y: tf.Tensor, timer: api.StepTimer
    ) -> tuple[_Pass, api.Logs]:
        if self._place > 0:
            x = self._receive(self._job.rank - 1, (len(x), *self._stage.input_shape[1:]), timer)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(self._trained)
            if self._before_trains:
                tape.watch(x)
            made, logs = self._forward(x, y)
        if not self._last:
            self._peers.send(self._job.rank + 1, made.numpy())
        timer.end("compute")
        return _Pass(tape, x, made), logs

    def _pass_backward(self, kept: _Pass, timer: api.StepTimer) -> list[tf.Tensor]:
        """Return the gradients of the stage's weights; send its input's gradient one stage back."""
        gradient = None if self._last else self._receive(self._job.rank + 1, kept.made.shape, timer)
        sources = [*self._trained, kept.given] if self._before_trains else self._trained
        gradients = list(kept.tape.gradient(kept.made, sources, gradient))
        if self._before_trains:
            self._peers.send(self._job.rank - 1, gradients.pop().numpy())
        timer.end("compute")
        return gradients

    def _receive(self, peer: int, shape: tuple[int, ...], timer: api.StepTimer) -> tf.Tensor:
        timer.end("compute")
        select.select([self._peers.fileno(peer)], [], [])
        timer.end("wait")
        values = self._peers.receive_array(peer, math.prod(shape))
        timer.end("communicate")
        return tf.constant(values, shape=shape)

    def step(self, batch: api.Batch) -> api.Logs:
        logs, times = self._train(batch)
        self.note("bubble_share", (times.wait + times.communicate) / sum(times))
        return logs

    def split_step(self, batch: api.Batch) -> api.StepTimes:
        """Train one step; its parts are sums over the micro-batches.

        `wait` is the time until a neighbour begins to send, `communicate` the time until all has
        arrived.
        """
        return self._train(batch)[1]

    def barrier(self) -> None:
        self._peers.exchange(b"")

    def agree(self) -> None:
        """Give every worker all stages, including the statistics of batch normalisation."""
        own = api.flat(api.agreed(self._stage)).numpy()
        whole = 4 * sum(math.prod(v.shape) for v in api.agreed(self.model))
        messages = self._peers.exchange(own.tobytes(), at_most=whole)
        found = [np.frombuffer(message, np.float32) for message in messages]
        for place, stage in enumerate(self._stages):
            of_stage = found[place :: len(self._stages)]
            weights = sum(math.prod(v.shape) for v in stage.trainable_variables)
            mean = np.stack(of_stage).mean(axis=0)
            # weights are equal in all pipelines; only statistics are averaged
            agreed = np.concatenate([of_stage[0][:weights], mean[weights:]])
            api.assign(api.agreed(stage), agreed)

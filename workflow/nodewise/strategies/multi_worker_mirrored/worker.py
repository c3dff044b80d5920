"""TensorFlow's MultiWorkerMirroredStrategy with a custom training loop.

Synchronous data parallelism: every worker computes the gradient of its part of the global batch, an
all-reduce sums the gradients, and every worker applies the same update. The all-reduce is
TensorFlow's ring, or a star implemented here, in which one worker is the driver and models have
plain variables. (Keras' `fit` does not support this strategy on two or more workers, so there is a
training loop here.)
"""

from typing import cast

import keras
import numpy as np
import tensorflow as tf

from nodewise.models.contents import draw_unseeded_by, examples_in, optimizers_of, unseeded
from nodewise.strategies import api, native, per_worker
from nodewise.strategies.multi_worker_mirrored import MultiWorkerMirrored
from nodewise.strategies.multi_worker_mirrored.star import Star
from nodewise.strategies.replica import Replica, before_apply, weighted
from nodewise.strategies.ring import Ring


class Strategy(api.Strategy):
    """Trains on `job.size` workers that find each other through TF_CONFIG."""

    def __init__(self, job: api.Job) -> None:
        self._job = job
        self._replica: Replica | None = None
        if cast(MultiWorkerMirrored, job.options).collective == "star":
            # create the star before the ring, whose server listens on the same addresses
            star = Star(job)
            self._ring = Ring()
            self._replica = Replica(job, star)
            self.model = self._replica.model
            per_worker.check(self.model, job)
            raising = star.raising()
            self._step, self._split = raising(self._replica.step), raising(self._replica.split_step)
            return
        self._ring = Ring()
        self.model = native.build(
            job, self._ring.workers, "MultiWorkerMirroredStrategy", self._make_variables
        )
        api.own_masks(self.model, job.rank)
        self._weight = 1.0
        for optimizer in optimizers_of(self.model):
            before_apply(optimizer, lambda gradients: weighted(gradients, self._weight))
        self._step = tf.function(self._fused, autograph=False)
        self._split = self._copied_split_step

    def _make_variables(self, model: keras.Model, batch: api.Batch) -> None:
        """Create the variables by tracing a step: `test_on_batch` fails with this strategy."""

        def train(batch: api.Batch) -> api.Logs:
            logs: api.Logs = self._ring.workers.run(model.train_step, (batch,))
            return logs

        tf.function(train, autograph=False).get_concrete_function(batch)

    def _fused(self, batch: api.Batch) -> api.Logs:
        # Keras assumes that all workers have the same number of examples
        self._weight = self._job.size * examples_in(batch) / self._job.global_batch
        logs: api.Logs = self._ring.workers.run(
            lambda batch: api.numbers(self.model.train_step(batch)), args=(batch,)
        )
        return logs

    def step(self, batch: api.Batch) -> api.Logs:
        logs: api.Logs = self._step(batch)
        return logs

    def split_step(self, batch: api.Batch) -> api.StepTimes:
        return self._split(batch)

    def _copied_split_step(self, batch: api.Batch) -> api.StepTimes:
        """Train a copy of the model on plain variables, which is created at the first call.

        On mirrored variables a Keras optimizer would sum the gradients a second time. On plain
        variables a synchronized batch normalization is not timed, and a loss that is a sum counts
        as a mean.
        """
        if self._replica is None:
            variables, generator = self._variables(), unseeded()
            self._replica = Replica(self._job, self._ring).like(variables)
            draw_unseeded_by(generator)  # creating the copy has started another generator
        return self._replica.split_step(batch)

    def split_weights(self) -> list[np.ndarray]:
        model: keras.Model = self._replica.model if self._replica else self.model
        return [np.asarray(v.numpy()) for v in model.trainable_variables]

    def agree(self) -> None:
        self._ring.average(api.moving_statistics(self.model))

    def trained(self) -> keras.Model:
        return native.plain_copy(self._job, self.model)

    def barrier(self) -> None:
        self._ring.barrier()

"""TensorFlow's MultiWorkerMirroredStrategy with ring collectives and a loop of our own.

Synchronous data parallelism: every worker computes the gradient of its part of the global batch,
an all-reduce sums them, every worker applies the same update. The all-reduce is TensorFlow's ring,
or a star of our own, in which one worker is the driver. (Keras' `fit` cannot drive this strategy
from two workers on; the loop here can.)
"""

from collections.abc import Sequence
from typing import cast

import keras
import numpy as np
import tensorflow as tf

from nodewise.strategies import api
from nodewise.strategies.multi_worker_mirrored import MultiWorkerMirrored
from nodewise.strategies.multi_worker_mirrored.star import Star


class Ring:
    """The strategy's scope, and ring all-reduces outside of it.

    No timeout is set: TensorFlow would start a thread per collective that sleeps until the timeout,
    thousands of them where steps are short. A peer that is gone breaks its connection; one that
    hangs is ended by the time limit of the cell.
    """

    def __init__(self) -> None:
        self._options = tf.distribute.experimental.CommunicationOptions(
            implementation=tf.distribute.experimental.CommunicationImplementation.RING,
        )
        self.workers = tf.distribute.MultiWorkerMirroredStrategy(
            communication_options=self._options
        )
        self.sum = tf.function(self.all_reduce, autograph=False)

    def all_reduce(self, values: tf.Tensor) -> tf.Tensor:
        """Return the sum of `values`, of the same shape on every worker, over the workers."""

        def reduce(values: tf.Tensor) -> tf.Tensor:
            context = tf.distribute.get_replica_context()
            # the collective rejects a function's own argument; a copy of it is accepted
            return context.all_reduce(
                tf.distribute.ReduceOp.SUM, tf.identity(values), options=self._options
            )

        return self.workers.run(reduce, args=(values,))

    def average(self, variables: Sequence[keras.Variable]) -> None:
        """Set `variables`, the same ones on every worker, to their means over the workers."""
        for variable in variables:
            total = self.sum(tf.convert_to_tensor(variable.numpy()))
            variable.assign(total.numpy() / self.workers.num_replicas_in_sync)

    def barrier(self) -> None:
        """Return when every worker has called it."""
        self.sum(tf.zeros([1])).numpy()


class Strategy(api.Strategy):
    """Train on `job.size` workers that find each other through TF_CONFIG."""

    def __init__(self, job: api.Job) -> None:
        collective = cast(MultiWorkerMirrored, job.options).collective
        # before the ring, whose server listens where the star's workers find each other
        star = Star(job) if collective == "star" else None
        self._ring = Ring()
        self._job = job
        with self._ring.workers.scope():
            keras.utils.set_random_seed(job.seed)
            self.model = job.build()
            api.own_masks(self.model, job.rank)
            self.optimizer = job.optimizer()
            self.optimizer.build(self.model.trainable_variables)
        self._replica: api.Replica | None = None
        self._all_reduce = star.all_reduce if star else self._ring.all_reduce
        self._sum = tf.function(self._all_reduce, autograph=False)
        sum_first = star is not None or api.clips(self.optimizer)
        self._step = tf.function(self._fused_summed if sum_first else self._fused, autograph=False)
        if star:
            raising = star.raising_lost_peer()
            self._sum, self._step = raising(self._sum), raising(self._step)

    def _fused(self, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        def replica_step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
            grads, scores = api.gradients(self.model, self._job, x, y)
            # in a replica context a Keras optimizer sums the gradients over workers itself, clipped
            self.optimizer.apply(grads, self.model.trainable_variables)
            return scores

        return self._ring.workers.run(replica_step, args=(x, y))

    def _fused_summed(self, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        def replica_gradients(x: tf.Tensor, y: tf.Tensor) -> tuple[list[tf.Tensor], tf.Tensor]:
            return api.gradients(self.model, self._job, x, y)

        grads, scores = self._ring.workers.run(replica_gradients, args=(x, y))
        total = api.unflat(self._all_reduce(api.flat(grads)), grads)
        # outside of the replica's context the optimizer sums nothing itself
        self.optimizer.apply(total, self.model.trainable_variables)
        return scores

    def step(self, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return self._step(x, y)

    def split_step(self, x: tf.Tensor, y: tf.Tensor) -> api.StepTimes:
        return self._plain_replica().split_step(x, y, self.barrier, self._sum)

    def _plain_replica(self) -> api.Replica:
        """Return the copy of the model that `split_step` trains, made at its first call.

        Its variables are plain ones: on mirrored variables a Keras optimizer would sum the gradient
        over the workers once more.
        """
        if self._replica is None:
            self._replica = api.Replica(self._job).like(self._variables())
        return self._replica

    def split_weights(self) -> list[np.ndarray]:
        return [np.asarray(v.numpy()) for v in self._plain_replica().model.trainable_variables]

    def agree(self) -> None:
        self._ring.average(api.moving_statistics(self.model))

    def barrier(self) -> None:
        self._ring.barrier()

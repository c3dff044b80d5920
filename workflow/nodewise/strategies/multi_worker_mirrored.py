"""TensorFlow's MultiWorkerMirroredStrategy with ring collectives and a loop of our own.

Synchronous data parallelism: every worker computes the gradient of its part of the global batch,
a ring all-reduce sums them, every worker applies the same update. (Keras' `fit` cannot drive this
strategy from two workers on; the loop here can.)
"""

import time

import keras
import numpy as np
import tensorflow as tf

from nodewise.strategies import base

STUCK_PEER_S = 60  # a peer that is silent for longer is an error, not a wait without end


class Ring:
    """The workers' ring: the strategy's scope, and an all-reduce of its own kind."""

    def __init__(self) -> None:
        self._options = tf.distribute.experimental.CommunicationOptions(
            timeout_seconds=STUCK_PEER_S,
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

    def barrier(self) -> None:
        """Return when every worker has called it."""
        self.sum(tf.zeros([1])).numpy()


class Strategy(base.Strategy):
    """Train on `job.size` workers that find each other through TF_CONFIG."""

    def __init__(self, job: base.Job) -> None:
        self._ring = Ring()
        self._job = job
        with self._ring.workers.scope():
            keras.utils.set_random_seed(job.seed)
            self.model = job.build()
            self.optimizer = job.optimizer()
            self.optimizer.build(self.model.trainable_variables)
        self._replica: base.Replica | None = None
        self._step = tf.function(self._fused, autograph=False)

    def _fused(self, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        def replica_step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
            grads, scores = base.gradients(self.model, self._job, x, y)
            # in a replica context a Keras optimizer sums the gradients over workers itself
            self.optimizer.apply(grads, self.model.trainable_variables)
            return scores

        return self._ring.workers.run(replica_step, args=(x, y))

    def step(self, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return self._step(x, y)

    def split_step(self, x: tf.Tensor, y: tf.Tensor) -> base.StepTimes:
        replica = self._plain_replica()
        marks = [time.perf_counter()]
        gradient = replica.gradient(x, y)
        marks.append(time.perf_counter())
        self.barrier()
        marks.append(time.perf_counter())
        total = self._ring.sum(gradient)
        marks.append(time.perf_counter())
        replica.apply(total)
        marks.append(time.perf_counter())
        return base.StepTimes(*np.diff(marks).tolist())

    def _plain_replica(self) -> base.Replica:
        """Return the split form's own copy of the model, as the fused form's stood at its creation.

        On plain variables, since a Keras optimizer on mirrored ones would sum the gradient, which
        is summed already, once more.
        """
        if self._replica is None:
            self._replica = base.Replica(self._job).like(self._variables())
        return self._replica

    def split_weights(self) -> list[np.ndarray]:
        return [np.asarray(v.numpy()) for v in self._plain_replica().model.trainable_variables]

    def agree(self) -> None:
        for variable in base.moving_statistics(self.model):
            own = tf.convert_to_tensor(variable.numpy())
            variable.assign(self._ring.sum(own).numpy() / self._job.size)

    def barrier(self) -> None:
        self._ring.barrier()

"""TensorFlow's ring all-reduce between workers that find each other through TF_CONFIG."""

from collections.abc import Sequence

import keras
import tensorflow as tf

from nodewise.strategies import api
from nodewise.strategies.replica import BUCKET_BYTES, Exchange


class Ring(Exchange):
    """The strategy's scope, and ring all-reduces outside of it.

    No timeout is set: TensorFlow would start a thread per collective that sleeps until the timeout,
    thousands of them where steps are short. A peer that is gone breaks its connection; one that
    hangs is ended by the time limit of the cell.
    """

    def __init__(self) -> None:
        self._options = tf.distribute.experimental.CommunicationOptions(
            implementation=tf.distribute.experimental.CommunicationImplementation.RING,
            bytes_per_pack=BUCKET_BYTES,  # of what Keras' optimizer exchanges by itself
        )
        self.workers = tf.distribute.MultiWorkerMirroredStrategy(
            communication_options=self._options
        )
        self._summed = tf.function(self.sum, autograph=False)

    def sum(self, values: tf.Tensor) -> tf.Tensor:
        def reduce(values: tf.Tensor) -> tf.Tensor:
            context = tf.distribute.get_replica_context()
            # the collective rejects a function's own argument; a copy of it is accepted
            return context.all_reduce(
                tf.distribute.ReduceOp.SUM, tf.identity(values), options=self._options
            )

        return self.workers.run(reduce, args=(values,))

    def concat(self, rows: tf.Tensor) -> tf.Tensor:
        def gather(rows: tf.Tensor) -> tf.Tensor:
            context = tf.distribute.get_replica_context()
            return context.all_gather(tf.identity(rows), axis=0, options=self._options)

        return self.workers.run(gather, args=(rows,))

    def average(self, variables: Sequence[keras.Variable]) -> None:
        """Set `variables`, the same ones on every worker, to their means over the workers."""
        if variables:
            own = api.flat([tf.convert_to_tensor(variable.numpy()) for variable in variables])
            api.assign(variables, self._summed(own) / self.workers.num_replicas_in_sync)

    def barrier(self) -> None:
        """Return when every worker has called it."""
        self._summed(tf.zeros([1])).numpy()

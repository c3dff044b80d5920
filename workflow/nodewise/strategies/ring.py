"""TensorFlow's ring all-reduce between workers that find each other through TF_CONFIG."""

import tensorflow as tf

from nodewise.strategies.replica import BUCKET_BYTES, Exchange


class RingAllReduce(Exchange):
    """MultiWorkerMirroredStrategy with ring all-reduces, in its scope and outside of it.

    No timeout is set: TensorFlow would start a thread per collective that sleeps until the timeout,
    which makes thousands of threads if steps are short. If a peer dies, its connection breaks. If
    it hangs, the time limit of the cell ends it.
    """

    def __init__(self) -> None:
        self._options = tf.distribute.experimental.CommunicationOptions(
            implementation=tf.distribute.experimental.CommunicationImplementation.RING,
            bytes_per_pack=BUCKET_BYTES,  # for the gradients that Keras' optimizer exchanges
        )
        self.workers = tf.distribute.MultiWorkerMirroredStrategy(
            communication_options=self._options
        )

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

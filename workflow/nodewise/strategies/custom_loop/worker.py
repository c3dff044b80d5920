"""Synchronous data parallelism with a custom training loop that has little overhead per step.

It uses the ring all-reduce of MultiWorkerMirroredStrategy, but plain variables. `_AT_ONCE` steps
run in one `tf.while_loop`, which reads batches directly from the input pipeline, so that Python is
called only once per loop.
"""

import time
from collections.abc import Iterator
from typing import cast

import numpy as np
import tensorflow as tf

from nodewise.strategies import api, replica
from nodewise.strategies.ring import RingAllReduce

# More steps per loop would gain less than the scatter of measurements. All workers need the same
# number, because messages in a loop carry the number of the iteration.
_AT_ONCE = 50


class Strategy(replica.Strategy):
    """Trains on `job.size` workers that find each other through TF_CONFIG."""

    def __init__(self, job: api.Job) -> None:
        ring = RingAllReduce()
        super().__init__(job, ring if job.size > 1 else None)
        self._loop = tf.function(self._steps, autograph=False)

    def _steps(
        self, stream: tf.data.Iterator, steps: tf.Tensor
    ) -> tuple[api.Logs, tf.Tensor, tf.Tensor]:
        """Train `steps` steps; return the last logs and two times per step.

        The times are when each step began and when it had its batch, (steps,) each.
        """
        step = self._replica.step.get_concrete_function(stream.element_spec)
        none = tf.nest.map_structure(
            lambda spec: tf.zeros(spec.shape, spec.dtype), step.structured_outputs
        )

        def turn(
            done: tf.Tensor, _: api.Logs, began: tf.TensorArray, fed: tf.TensorArray
        ) -> tuple[tf.Tensor, api.Logs, tf.TensorArray, tf.TensorArray]:
            began = began.write(done, tf.timestamp())
            with tf.control_dependencies([began.flow]):
                batch = stream.get_next()
            with tf.control_dependencies(tf.nest.flatten(batch)):
                fed = fed.write(done, tf.timestamp())
            with tf.control_dependencies([fed.flow]):
                logs = self._replica.step(batch)
            return done + 1, logs, began, fed

        began, fed = (tf.TensorArray(tf.float64, size=steps) for _ in range(2))
        # one iteration at a time: a step begins when the previous one is completely done
        _, logs, began, fed = tf.while_loop(
            lambda done, *_: done < steps, turn, (0, none, began, fed), parallel_iterations=1
        )
        return logs, began.stack(), fed.stack()

    def train(self, stream: Iterator[api.Batch], steps: int) -> Iterator[api.Steps]:
        parts = tf.nest.flatten(cast(tf.data.Iterator, stream).element_spec)
        if any(isinstance(part, tf.RaggedTensorSpec) for part in parts):
            # in a loop TensorFlow gathers embedding rows only if their number is always the same
            yield from super().train(stream, steps)
            return
        before = time.time()  # the clock of tf.timestamp
        for first in range(0, steps, _AT_ONCE):
            at_once = tf.constant(min(_AT_ONCE, steps - first))
            logs, began, fed = self._loop(stream, at_once)
            logs, began, fed = api.plain(logs), began.numpy(), fed.numpy()
            ended = time.time()
            starts = np.array([before, *began[1:], ended])
            yield api.Steps(
                logs, input_s=(fed - starts[:-1]).tolist(), step_s=np.diff(starts).tolist()
            )
            before = ended

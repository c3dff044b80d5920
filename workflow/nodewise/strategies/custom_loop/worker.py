"""A training loop of our own: synchronous data parallelism with little overhead per step.

It uses the ring all-reduce of MultiWorkerMirroredStrategy, but plain variables, and one buffer for
all gradients. `_AT_ONCE` steps run in one `tf.while_loop`, which takes the batches from the input
pipeline itself, so Python is called only once per loop.
"""

import time
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from nodewise.strategies import api
from nodewise.strategies.multi_worker_mirrored.worker import Ring

# More would gain less than measurements scatter. The same on all workers: messages of a loop carry
# the number of the turn.
_AT_ONCE = 50


class Strategy(api.Strategy):
    """Train on `job.size` workers that find each other through TF_CONFIG."""

    def __init__(self, job: api.Job) -> None:
        self._alone = job.size == 1
        self._ring = Ring()
        self._replica = api.Replica(job)
        self.model = self._replica.model
        self.optimizer = self._replica.optimizer
        self._step = tf.function(self._fused, autograph=False)
        self._loop = tf.function(self._steps, autograph=False)

    def _fused(self, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        if self._alone:  # no all-reduce, so no need to copy the gradients into one buffer
            return self._replica.step(x, y)
        gradient, scores = self._replica.scored_gradient(x, y)
        self._replica.apply(self._ring.all_reduce(gradient))
        return scores

    def _steps(
        self, stream: tf.data.Iterator, steps: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Train `steps` steps; return for each its scores, and when it began and had its batch."""

        def turn(
            done: tf.Tensor, scores: tf.TensorArray, began: tf.TensorArray, fed: tf.TensorArray
        ) -> tuple[tf.Tensor, tf.TensorArray, tf.TensorArray, tf.TensorArray]:
            began = began.write(done, tf.timestamp())
            with tf.control_dependencies([began.flow]):
                x, y = stream.get_next()
            with tf.control_dependencies([x]):
                fed = fed.write(done, tf.timestamp())
            with tf.control_dependencies([fed.flow]):
                scores = scores.write(done, self._fused(x, y))
            return done + 1, scores, began, fed

        kinds = (tf.float32, tf.float64, tf.float64)
        arrays = [tf.TensorArray(kind, size=steps) for kind in kinds]
        # one turn at a time: a step begins when all of the one before it is done
        _, *filled = tf.while_loop(
            lambda done, *_: done < steps, turn, (0, *arrays), parallel_iterations=1
        )
        scores, began, fed = (array.stack() for array in filled)
        return scores, began, fed

    def train(
        self, stream: Iterator[tuple[tf.Tensor, tf.Tensor]], steps: int
    ) -> Iterator[api.Steps]:
        before = time.time()  # the clock of tf.timestamp
        for first in range(0, steps, _AT_ONCE):
            at_once = tf.constant(min(_AT_ONCE, steps - first))
            scores, began, fed = (array.numpy() for array in self._loop(stream, at_once))
            ended = time.time()
            starts = np.array([before, *began[1:], ended])
            yield api.Steps(
                scores.sum(axis=0),
                input_s=(fed - starts[:-1]).tolist(),
                step_s=np.diff(starts).tolist(),
            )
            before = ended

    def step(self, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return self._step(x, y)

    def split_step(self, x: tf.Tensor, y: tf.Tensor) -> api.StepTimes:
        return self._replica.split_step(x, y, self.barrier, self._ring.sum)

    def barrier(self) -> None:
        self._ring.barrier()

    def agree(self) -> None:
        self._ring.average(api.moving_statistics(self.model))

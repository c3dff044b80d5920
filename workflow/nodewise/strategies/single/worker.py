"""One process, no communication: the same loop as everywhere, and the base of every speed-up."""

import time

import tensorflow as tf

from nodewise.strategies import api


class Strategy(api.Strategy):
    """Train on one worker."""

    def __init__(self, job: api.Job) -> None:
        self._replica = api.Replica(job)
        self.model = self._replica.model
        self.optimizer = self._replica.optimizer

    def step(self, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return self._replica.step(x, y)

    def split_step(self, x: tf.Tensor, y: tf.Tensor) -> api.StepTimes:
        start = time.perf_counter()
        gradient = self._replica.gradient(x, y)
        computed = time.perf_counter()
        self._replica.apply(gradient)
        return api.StepTimes(computed - start, 0.0, 0.0, time.perf_counter() - computed)

    def barrier(self) -> None:
        """One worker waits for nobody."""

    def agree(self) -> None:
        """One worker agrees with itself."""

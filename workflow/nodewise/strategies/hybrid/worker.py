"""Hybrid parallelism: groups of nodes form pipelines, which share the global batch.

This is model parallelism within a group and data parallelism between groups. After its backward
passes, every stage sums its gradients with the same stage of the other groups, so that a step still
equals that of a single process with the global batch.
"""

import tensorflow as tf

from nodewise.strategies import api
from nodewise.strategies.pipeline import Pipeline, check

__all__ = ["Strategy", "check"]


class Strategy(Pipeline):
    """Trains one stage of one group's pipeline; every batch is the global one."""

    def __init__(self, job: api.Job) -> None:
        super().__init__(job)
        self._alike = range(self._place, job.size, len(self._stages))  # the same stage everywhere
        self._flat = tf.function(api.flat, autograph=False)
        self._unflat = tf.function(lambda total: api.unflat(total, self._trained), autograph=False)

    def _whole_gradients(self, gradients: list[tf.Tensor], timer: api.StepTimer) -> list[tf.Tensor]:
        if not self._trained:
            return gradients
        own = self._flat(gradients).numpy()
        timer.end("compute")
        total = self._peers.total(own, self._alike)
        timer.end("communicate")
        whole: list[tf.Tensor] = self._unflat(tf.constant(total))
        return whole

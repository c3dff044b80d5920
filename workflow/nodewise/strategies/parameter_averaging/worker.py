"""Parameter averaging: workers train alone and average their weights from time to time.

Also known as local SGD (Stich, arXiv:1805.09767). Let g be the mean gradient of the global batch,
which is the sum over the n workers of their parts g_k, as everywhere in this package. A worker
steps along n·g_k, which is the mean gradient of its own examples if all parts have equal size. The
mean of w - η·n·g_k over the workers is w - η·g: if weights are averaged after every step, plain SGD
equals synchronous SGD, whatever the sizes of the parts.

If they are averaged after every τ steps, a ring all-reduce of S bytes of weights sends 2(n-1)/n·S/τ
per step. In between the replicas drift apart, and an optimizer with memory remembers a different
path on each worker.
"""

from typing import cast

import keras
import numpy as np
import tensorflow as tf

from nodewise.models.contents import inner_optimizers, optimizers_of
from nodewise.strategies import api, per_worker
from nodewise.strategies.parameter_averaging import ParameterAveraging
from nodewise.strategies.replica import Replica
from nodewise.strategies.ring import RingAllReduce


class Strategy(api.Strategy):
    """Trains on `job.size` workers that find each other through TF_CONFIG."""

    def __init__(self, job: api.Job) -> None:
        chosen = cast(ParameterAveraging, job.options)
        super().__init__(job)
        self._period = job.steps_per_epoch if chosen.period == "epoch" else chosen.period
        self.replicas_agree = self._period == 1
        self._since = 0  # steps since the weights were averaged
        self._ring = RingAllReduce()
        self._replica = Replica(job)
        self._replica.start_alike(self._ring)
        self.model = self._replica.model
        per_worker.check(self.model, job)
        # also those that only its optimizer leads to, such as weights of a closure's layer
        self._averaged = [*filter(api.is_trained, api.changing(self.model))]
        self._averages = [v for one in optimizers_of(self.model) for v in averages(one)]
        self._flat = tf.function(lambda: api.flat(self._averaged), autograph=False)
        self._load = tf.function(self._load_mean, autograph=False)
        self._average = tf.function(
            lambda: self._load_mean(self._ring.sum(self._flat())), autograph=False
        )
        initial = self.state()
        self._average()  # trace and connect now, because the first average due is timed
        self._load(self._ring.summed(self._flat()))
        self.restore(initial)

    def _load_mean(self, total: tf.Tensor) -> None:
        api.assign(self._averaged, total / self._job.size)

    def _due(self) -> bool:
        """Count a step; return whether the weights must be averaged after it."""
        self._since = (self._since + 1) % self._period
        return self._since == 0

    def step(self, batch: api.Batch) -> api.Logs:
        logs: api.Logs = self._replica.step(batch)
        if self._due():
            self._average()
        return logs

    def split_step(self, batch: api.Batch) -> api.StepTimes:
        """Train one step in parts; it waits and communicates only if an average is due.

        Copying the weights to the buffer and back counts as the update.
        """
        own_step = self._replica.split_step(batch)
        if not self._due():
            return own_step
        timer = api.StepTimer()
        own = self._flat()
        timer.end("apply")
        self.barrier()
        timer.end("wait")
        total = self._ring.summed(own)
        timer.end("communicate")
        self._load(total)
        timer.end("apply")
        times = timer.times()
        return times._replace(compute=own_step.compute, apply=own_step.apply + times.apply)

    def barrier(self) -> None:
        self._ring.barrier()

    def agree(self) -> None:
        statistics = api.moving_statistics(self.model)
        self._ring.average([*self._averaged, *self._averages, *statistics], self._job.size)

    def state(self) -> list[np.ndarray]:
        return [*super().state(), np.array(self._since)]

    def restore(self, state: list[np.ndarray]) -> None:
        *variables, since = state
        super().restore(variables)
        self._since = int(since)


def averages(optimizer: keras.optimizers.Optimizer) -> list[keras.Variable]:
    """Return all that an optimizer remembers if it averages weights (`use_ema`), else nothing.

    This includes the averages by which Keras replaces the weights at the end of training. Step
    counts and learning rates are not among it.
    """
    inner = inner_optimizers(optimizer)
    if not any(one.use_ema for one in inner):
        return []
    others = {id(kept) for one in inner for kept in (one.iterations, one.learning_rate)}
    return [variable for variable in optimizer.variables if id(variable) not in others]

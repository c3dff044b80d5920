"""TensorFlow's MultiWorkerMirroredStrategy with a custom training loop.

Synchronous data parallelism: every worker computes the gradient of its part of the global batch, an
all-reduce sums the gradients, and every worker applies the same update. The all-reduce is
TensorFlow's ring, or a star implemented here, in which one worker is the driver and models have
plain variables. (Keras' `fit` does not support this strategy on two or more workers, so there is a
training loop here.)
"""

from typing import cast

from nodewise.models.contents import draw_unseeded_by, examples_in, unseeded
from nodewise.strategies import api, native, replica
from nodewise.strategies.multi_worker_mirrored import MultiWorkerMirrored
from nodewise.strategies.multi_worker_mirrored.star import StarAllReduce
from nodewise.strategies.replica import Replica, changed_gradients, weighted
from nodewise.strategies.ring import RingAllReduce


def Strategy(job: api.Job) -> api.Strategy:  # noqa: N802
    """Return the strategy with the all-reduce that the job's options choose."""
    star = cast(MultiWorkerMirrored, job.options).collective == "star"
    return replica.Strategy(job, StarAllReduce(job)) if star else Ring(job)


class Ring(native.Strategy):
    """Trains on mirrored variables of workers that find each other through TF_CONFIG."""

    def __init__(self, job: api.Job) -> None:
        self._ring = RingAllReduce()
        self._copy: Replica | None = None
        super().__init__(job, self._ring.workers, "MultiWorkerMirroredStrategy")
        api.set_dropout_seed(self.model, job.rank)

    def _fused(self, batch: api.Batch) -> api.Logs:
        # Keras assumes that all workers have the same number of examples
        weight = self._job.size * examples_in(batch) / self._job.global_batch
        with changed_gradients(self.model, lambda gradients: weighted(gradients, weight)):
            logs: api.Logs = self._ring.workers.run(
                lambda batch: api.numbers(self.model.train_step(batch)), args=(batch,)
            )
        return logs

    def split_step(self, batch: api.Batch) -> api.StepTimes:
        """Train a copy of the model on plain variables, which is created at the first call.

        On mirrored variables a Keras optimizer would sum the gradients a second time. On plain
        variables a synchronized batch normalization is not timed, and a loss that is a sum counts
        as a mean.
        """
        if self._copy is None:
            variables, generator = self._variables(), unseeded()
            self._copy = Replica(self._job, self._ring)
            for target, source in zip(api.changing(self._copy.model), variables, strict=True):
                target.assign(source.numpy())
            draw_unseeded_by(generator)  # creating the copy has started another generator
        return self._copy.split_step(batch)

    def agree(self) -> None:
        self._ring.average(api.moving_statistics(self.model), self._job.size)

    def barrier(self) -> None:
        self._ring.barrier()

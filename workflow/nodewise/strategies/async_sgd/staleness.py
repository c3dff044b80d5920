"""Bookkeeping of a parameter server: how old its workers' weights are, and who is ahead.

The staleness of a gradient is the number of updates of the weights between the version that it was
computed on and its own update. This module uses neither TensorFlow nor connections.
"""

import numpy as np
from numpy.typing import NDArray

Flat = NDArray[np.float32]


class Ledger:
    """Tracks which version of the weights each worker has, and how many steps it has done.

    If there is a `bound`, a worker that is more than `bound` steps ahead of the slowest one must
    wait. Steps are counted from the last meeting of all workers. A worker that has already arrived
    at the next meeting does not count as slow.
    """

    def __init__(self, workers: int, bound: int | None = None) -> None:
        self.workers, self._bound = workers, bound
        self.version = 0  # of the weights: how often they were updated
        self._pulled = [0] * workers
        self._steps = [0] * workers
        self._values: dict[int, Flat] = {}

    def pushed(self, worker: int) -> int:
        """Record that `worker` has done a step; return the staleness of its gradient.

        The staleness is already known if the gradient is gathered with others that are still to
        come: the next update is the one that it is a part of.
        """
        self._steps[worker] += 1
        return self.version - self._pulled[worker]

    def pulled(self, worker: int) -> None:
        """Record that `worker` has received the current weights."""
        self._pulled[worker] = self.version

    def lead(self, worker: int) -> int:
        """Return how many steps `worker` is ahead of the slowest worker that is still training."""
        training = set(range(self.workers)) - self._values.keys() | {worker}
        return self._steps[worker] - min(self._steps[one] for one in training)

    def must_wait(self, worker: int) -> bool:
        """Return whether `worker` is too far ahead to begin another step."""
        return self._bound is not None and self.lead(worker) > self._bound

    def came(self, worker: int, values: Flat) -> Flat | None:
        """Record that `worker` is at the meeting; when all are, return the mean of their values.

        The mean does not depend on the order in which workers arrive.
        """
        self._values[worker] = values
        if len(self._values) < self.workers:
            return None
        mean: Flat = np.mean([self._values[one] for one in sorted(self._values)], axis=0)
        self._values.clear()
        self._steps = [0] * self.workers
        return mean


class Gathering:
    """Gathers `size` gradients into one update, their mean (soft synchronisation).

    If `scaled`, the learning rate of each gradient is divided by its staleness, if that is above 1
    (Zhang et al., "Staleness-aware async-SGD", arXiv:1511.05950): gradients are averaged with
    weights 1 / staleness, and the factor of the update is the mean of these weights.
    """

    def __init__(self, size: int, *, scaled: bool) -> None:
        self._size, self._scaled = size, scaled
        self.reset()

    def reset(self) -> None:
        """Discard the gathered gradients."""
        self._sum: Flat | None = None
        self._weight = 0.0
        self._count = 0

    def add(self, gradient: Flat, staleness: int) -> tuple[Flat, float] | None:
        """Add a gradient; if the update is now complete, return it and its factor."""
        weight = 1 / max(1, staleness) if self._scaled else 1.0
        weighted = gradient * np.float32(weight)
        self._sum = weighted if self._sum is None else self._sum + weighted
        self._weight += weight
        self._count += 1
        if self._count < self._size:
            return None
        update = self._sum / np.float32(self._weight), self._weight / self._count
        self.reset()
        return update

"""What a parameter server knows of its workers: how old their weights are, and who is ahead.

Staleness of a gradient: the number of updates of the weights between those it was computed on and
its own. Here is only bookkeeping, without TensorFlow and without connections.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Flat = NDArray[np.float32]


class Ledger:
    """Which version of the weights each worker has, and how many steps it has done.

    With a `bound`, a worker that is more than `bound` steps ahead of the slowest has to wait. Steps
    count from the last meeting of all workers; who has come to the next one is not waited for.
    """

    def __init__(self, workers: int, bound: int | None = None) -> None:
        self.workers, self._bound = workers, bound
        self._version = 0
        self._pulled = [0] * workers
        self._steps = [0] * workers
        self._values: dict[int, Flat] = {}

    def pushed(self, worker: int) -> int:
        """Note that `worker` has done a step; return its gradient's staleness.

        That is known now, also if the gradient is gathered with others that are still to come: no
        update comes before that of which it is a part.
        """
        self._steps[worker] += 1
        return self._version - self._pulled[worker]

    def updated(self) -> None:
        """Note that the weights are another version from now on."""
        self._version += 1

    def pulled(self, worker: int) -> None:
        """Note that `worker` is given the weights as they are now."""
        self._pulled[worker] = self._version

    def lead(self, worker: int) -> int:
        """Return how many steps `worker` is ahead of the slowest that still trains."""
        training = set(range(self.workers)) - self._values.keys() | {worker}
        return self._steps[worker] - min(self._steps[one] for one in training)

    def must_wait(self, worker: int) -> bool:
        """Tell whether `worker` is too far ahead to begin another step."""
        return self._bound is not None and self.lead(worker) > self._bound

    def came(self, worker: int, values: Flat) -> Flat | None:
        """Note that `worker` came to the meeting; when all have, return the mean of their values.

        It does not depend on the order in which they came.
        """
        self._values[worker] = values
        if len(self._values) < self.workers:
            return None
        mean: Flat = np.mean([self._values[one] for one in sorted(self._values)], axis=0)
        self._values.clear()
        self._steps = [0] * self.workers
        return mean

    def waiting(self) -> Sequence[int]:
        """Return the workers that have come to the meeting and wait for the others."""
        return list(self._values)


class Update(NamedTuple):
    """What is applied at once: a gradient, and the factor of its learning rate."""

    gradient: Flat
    factor: float


class Gathering:
    """Gathers `size` gradients into one update: their mean (soft synchronisation).

    If they are scaled, the learning rate of each is divided by its staleness, if that is above 1
    (Zhang et al., "Staleness-aware async-SGD", arXiv:1511.05950): the gradients' mean weighs each
    by 1 / staleness, and the update's factor is the mean of the weights.
    """

    def __init__(self, size: int, *, scaled: bool) -> None:
        self._size, self._scaled = size, scaled
        self.reset()

    def reset(self) -> None:
        """Forget what is gathered."""
        self._sum: Flat | None = None
        self._weight = 0.0
        self._count = 0

    def add(self, gradient: Flat, staleness: int) -> Update | None:
        """Add a gradient; return the update when it is complete."""
        weight = 1 / max(1, staleness) if self._scaled else 1.0
        weighted = gradient * np.float32(weight)
        self._sum = weighted if self._sum is None else self._sum + weighted
        self._weight += weight
        self._count += 1
        if self._count < self._size:
            return None
        update = Update(self._sum / np.float32(self._weight), self._weight / self._count)
        self.reset()
        return update

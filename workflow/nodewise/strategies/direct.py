"""All-to-all, all-gather and all-reduce in which every worker sends directly to every other.

An all-reduce sends as many bytes as a ring, 2(n−1)/n of the array from each worker, in two
exchanges instead of the ring's 2(n−1) steps.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from nodewise.strategies.peers import Peers

Floats = NDArray[np.float32]


class Direct:
    """Collectives of float32 arrays. `seconds` is the time spent in them so far.

    The workers are the `members` of `peers`, by default all; a worker's rank is its index there.
    """

    def __init__(self, peers: Peers, members: Sequence[int] = ()) -> None:
        self._peers = peers
        self._members = members or range(peers.size)
        self.rank, self.size = self._members.index(peers.rank), len(self._members)
        self.seconds = 0.0

    def all_to_all(self, parts: Sequence[Floats]) -> list[Floats]:
        """Send `parts[r]` to each worker r; return what each sent to this one, flat, by rank.

        Raises:
            OSError: a peer is gone or stuck.
        """
        with self._timed():
            return self._exchange(parts)

    def all_gather(self, values: Floats) -> list[Floats]:
        """Return the `values` of all workers, flat, by rank."""
        return self.all_to_all([values] * self.size)

    def reduce_scatter(self, parts: Sequence[Floats]) -> Floats:
        """Return the sum over workers of their part for this one, in the shape of its own part."""
        return _sum(self.all_to_all(parts)).reshape(parts[self.rank].shape)

    def all_reduce(self, values: Floats) -> Floats:
        """Return the sum of `values`, (entries,) on every worker, over the workers.

        Each worker sums one part of the entries, and sends the sum to all others.
        """
        with self._timed():
            own = _sum(self._exchange(np.array_split(values, self.size)))
            return np.concatenate(self._exchange([own] * self.size))

    def _exchange(self, parts: Sequence[Floats]) -> list[Floats]:
        """Return what every worker sent to this one, which sends each its part.

        In step s a worker sends to the one s ranks after it and receives from the one s before it,
        so every receiver has one sender at a time.
        """
        own = [np.ravel(part) for part in parts]
        found = [*own]
        for step in range(1, self.size):
            to, source = (self.rank + step) % self.size, (self.rank - step) % self.size
            self._peers.send(self._members[to], own[to].data)
            found[source] = self._peers.receive_array(self._members[source])
        self._peers.flush()
        return found

    @contextmanager
    def _timed(self) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - started


def _sum(parts: Sequence[Floats]) -> Floats:
    """Return the sum, always in the order of ranks, so that all workers round alike."""
    total = parts[0].copy()
    for other in parts[1:]:
        total += other
    return total

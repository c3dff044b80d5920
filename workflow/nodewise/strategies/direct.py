"""Collectives without a detour: every worker sends to every other what is meant for it.

As many bytes as with rings, but fewer messages that wait for another: two for an all-reduce, where
a ring has 2(n−1). What is long takes the ring all the same: there nobody's link is shared by
several senders, and what is sent on has been there for longer than a worker pauses.
"""

import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from nodewise.strategies.peers import Peers

Floats = NDArray[np.float32]

# Messages of a worker on the way. With one, its link would be idle between two;
# all at once would meet those of others before one receiver, more than the queue there holds.
_ON_THE_WAY = 4

# What is summed is cut into so many pieces, of which one is summed while the next is on the way;
# but not into pieces so short that messages cost more than their bytes.
_PIECES = 4
_SHORTEST = 20_000  # entries

_LONG = 200_000  # entries; with half as many a ring was no quicker, with six times as many it was


class Direct:
    """Collectives of float32 arrays. `seconds` have been spent in them so far.

    Their workers are the `members` of `peers`, all if none are named; a worker's rank is its place
    among them.
    """

    def __init__(self, peers: Peers, members: Sequence[int] = ()) -> None:
        self._peers = peers
        self._members = members or range(peers.size)
        self.rank, self.size = self._members.index(peers.rank), len(self._members)
        self.seconds = 0.0
        self._to_send: deque[tuple[int, Floats]] = deque()
        self._on_the_way = 0

    def all_to_all(self, parts: Sequence[Floats]) -> list[Floats]:
        """Give `parts[r]` to each worker r; return what each has given this one, flat, by rank.

        Raises:
            OSError: a peer is gone or stuck.
        """
        with self._timed():
            return self._taken(self._give(parts))

    def all_gather(self, values: Floats) -> list[Floats]:
        """Return what each worker has as `values`, flat, by rank."""
        return self.all_to_all([values] * self.size)

    def reduce_scatter(self, parts: Sequence[Floats]) -> Floats:
        """Return the sum of what all workers have for this one in `parts`, in the shape of that."""
        return _sum(self.all_to_all(parts)).reshape(parts[self.rank].shape)

    def all_reduce(self, values: Floats) -> Floats:
        """Return the sum of `values`, (entries,) on every worker, over the workers."""
        if self.size > 1 and len(values) >= _LONG:
            return self._ring(values)
        count = _pieces(len(values))
        pieces = [np.array_split(piece, self.size) for piece in np.array_split(values, count)]
        total = np.empty_like(values)
        places = iter(np.array_split(total, count))
        with self._timed():
            scattered, gathered = deque([self._give(pieces[0])]), deque[Floats]()
            for following in [*pieces[1:], None]:
                if following is not None:  # is on the way while the one before it is summed
                    scattered.append(self._give(following))
                mine = _sum(self._taken(scattered.popleft()))
                gathered.append(self._give([mine] * self.size))
                if len(gathered) > 1:
                    np.concatenate(self._taken(gathered.popleft()), out=next(places))
            np.concatenate(self._taken(gathered.popleft()), out=next(places))
        return total

    def _ring(self, values: Floats) -> Floats:
        """Return the sum, by a ring all-reduce (Patarasuk and Yuan, 2009) in pieces.

        What is being sent is overwritten by the whole sum only, which nobody has before it arrived.
        New memory is touched first while the link is busy: a node has little CPU time for it.
        """
        total = np.empty_like(values)
        own, sums = self._parts(values), self._parts(total)
        left, right = (self._members[(self.rank + step) % self.size] for step in (-1, 1))
        last = 2 * (self.size - 1)
        with self._timed():
            for piece in own[self.rank]:
                self._peers.send(right, piece.data)
            for step in range(1, last + 1):
                part = (self.rank - step) % self.size
                for piece, place in zip(own[part], sums[part], strict=True):
                    self._peers.receive_into(left, place)
                    if step < self.size:
                        np.add(piece, place, out=place)
                    if step < last:
                        self._peers.send(right, place.data)
        return total

    def _parts(self, values: Floats) -> list[list[Floats]]:
        """Return the pieces of each worker's part of `values`."""
        count = _pieces(len(values) // self.size)
        return [np.array_split(part, count) for part in np.array_split(values, self.size)]

    def _give(self, parts: Sequence[Floats]) -> Floats:
        """Send each worker its part; return the one that is for this worker itself."""
        for step in range(1, self.size):
            to = (self.rank + step) % self.size
            self._to_send.append((self._members[to], parts[to]))
        self._send()
        return np.ravel(parts[self.rank])

    def _send(self) -> None:
        while self._to_send and self._on_the_way < _ON_THE_WAY:
            peer, part = self._to_send.popleft()
            self._peers.send(peer, np.ravel(part).data)  # a copy of what is not contiguous
            self._on_the_way += 1

    def _taken(self, own: Floats) -> list[Floats]:
        """Return the next message of each worker, by rank; `own` of this one."""
        found = {self.rank: own}
        for step in range(1, self.size):
            rank = (self.rank - step) % self.size
            found[rank] = self._peers.receive_array(self._members[rank])
            self._on_the_way -= 1  # what came took as long as what went meanwhile
            self._send()
        return [found[rank] for rank in range(self.size)]

    @contextmanager
    def _timed(self) -> Iterator[None]:
        """Count the seconds until what was given has been handed over."""
        started = time.perf_counter()
        yield
        self._peers.flush()
        self.seconds += time.perf_counter() - started


def _pieces(entries: int) -> int:
    return max(1, min(_PIECES, entries // _SHORTEST))


def _sum(parts: Sequence[Floats]) -> Floats:
    """Return the sum, always in the same order: so that it is rounded alike on all workers."""
    total = parts[0].copy()
    for other in parts[1:]:
        total += other
    return total

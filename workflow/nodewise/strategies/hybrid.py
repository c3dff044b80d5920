"""Hybrid parallelism: groups of nodes are pipelines, and share the global batch among themselves.

Model parallelism within a group, data parallelism between the groups: after its backward passes
every stage sums its gradients with the same stage of the other groups, so that a step is still the
one that a single process would do with the global batch.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from nodewise.strategies import base, model_parallel
from nodewise.strategies.peers import Peers


class Strategy(model_parallel.Strategy):
    """Train one stage of one group's pipeline; every batch is the global one."""

    def __init__(self, job: base.Job) -> None:
        super().__init__(job)
        self._alike = range(self._place, job.size, len(self._stages))
        self._flat = tf.function(base.flat, autograph=False)
        self._unflat = tf.function(lambda total: base.unflat(total, self._trained), autograph=False)

    def _whole_gradients(
        self, gradients: list[tf.Tensor], laps: model_parallel.Laps
    ) -> list[tf.Tensor]:
        if not self._trained:
            return gradients
        own = self._flat(gradients).numpy()
        laps.end("compute")
        total = all_reduce(self._peers, self._alike, own)
        laps.end("communicate")
        whole: list[tf.Tensor] = self._unflat(tf.constant(total))
        return whole


def all_reduce(
    peers: Peers, members: Sequence[int], own: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return the sum of `own`, (values,), over `members`: the same bits on each of them.

    Each sums one part of the values and sends it to all. For n members it sends, like a ring,
    2(n−1)/n times the values.
    """
    parts = np.array_split(own, len(members))
    mine = parts[members.index(peers.rank)]
    for peer, part in zip(members, parts, strict=True):
        if peer != peers.rank:
            peers.send(peer, part.tobytes())
    total = np.zeros_like(mine)
    for peer in members:  # in the same order for every part
        total += mine if peer == peers.rank else peers.receive_array(peer)
    for peer in members:
        if peer != peers.rank:
            peers.send(peer, total.tobytes())
    return np.concatenate(
        [total if peer == peers.rank else peers.receive_array(peer) for peer in members]
    )

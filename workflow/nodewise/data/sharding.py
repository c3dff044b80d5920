"""Divide examples among workers."""

import numpy as np
from numpy.typing import NDArray


def shard(examples: int, workers: int, rank: int, seed: int) -> NDArray[np.int64]:
    """Return the sorted row indices of the shard of worker `rank`.

    A shard is a part of a permutation of all rows. The shards of all ranks are disjoint and cover
    all rows. Their sizes differ by at most one; lower ranks have the larger shards.

    Args:
        examples: number of rows.
        workers: number of workers.
        rank: rank of the worker.
        seed: seed of the permutation; the same for all workers.

    Raises:
        ValueError: `rank` is not below `workers`, or a count is negative.
    """
    if not 0 <= rank < workers:
        raise ValueError(f"rank {rank} of {workers} workers")
    order = np.random.default_rng(seed).permutation(examples)
    return np.sort(np.array_split(order, workers)[rank])

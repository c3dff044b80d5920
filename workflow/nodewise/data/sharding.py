"""Which examples belong to which worker."""

import numpy as np
from numpy.typing import NDArray


def shard(examples: int, workers: int, rank: int, seed: int) -> NDArray[np.int64]:
    """Return the rows of worker `rank`, sorted: its part of one seeded permutation of all rows.

    The shards of all ranks are disjoint and together all rows; their sizes differ by at most one,
    the lower ranks having more.

    Raises:
        ValueError: `rank` is not below `workers`, or a count is negative.
    """
    if not 0 <= rank < workers:
        raise ValueError(f"rank {rank} of {workers} workers")
    order = np.random.default_rng(seed).permutation(examples)
    return np.sort(np.array_split(order, workers)[rank])

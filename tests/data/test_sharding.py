"""Shards are disjoint, complete, of equal size, and the same on every worker."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewise.data.pipeline import shard


@given(st.integers(0, 500), st.integers(1, 40), st.integers(0, 2**31 - 1))
def test_shards_are_disjoint_and_together_everything(examples, workers, seed):
    shards = [shard(examples, workers, rank, seed) for rank in range(workers)]
    assert sorted(np.concatenate(shards).tolist()) == list(range(examples))
    sizes = [len(rows) for rows in shards]
    assert max(sizes) - min(sizes) <= 1
    assert sizes == sorted(sizes, reverse=True)
    assert all((np.diff(rows) > 0).all() for rows in shards)


def test_a_shard_is_a_random_sample_not_a_slice():
    rows = shard(60_000, 3, 0, 1)
    assert abs(rows.mean() - 30_000) < 500
    assert not np.array_equal(rows, shard(60_000, 3, 0, 2))


@pytest.mark.parametrize(("workers", "rank"), [(3, 3), (3, -1), (0, 0), (-2, 0)])
def test_a_rank_that_does_not_exist(workers, rank):
    with pytest.raises(ValueError, match="rank"):
        shard(10, workers, rank, 0)

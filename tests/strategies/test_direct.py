"""The direct all-reduce gives every worker the same sum."""

import numpy as np
import pytest

from everywhere import everywhere
from nodewise.strategies.transport import Direct


@pytest.mark.parametrize(
    ("workers", "entries"),
    [
        (1, 5),
        (2, 1),
        (4, 2),
        (5, 0),
        (2, 1_000_000),  # larger than a socket's buffers
        (7, 300_001),
    ],
)
def test_all_workers_get_the_same_sum(workers, entries):
    values = np.random.default_rng(1).normal(size=(workers, entries)).astype(np.float32)
    sums = everywhere(workers, lambda peers: Direct(peers).all_reduce(values[peers.rank]))
    for one in sums:
        np.testing.assert_allclose(one, values.sum(axis=0), rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(one, sums[0])


def test_groups_of_workers_sum_independently():
    def work(peers):
        values = np.full(7, 10.0**peers.rank, np.float32)
        return float(Direct(peers, range(peers.rank % 2, 5, 2)).all_reduce(values).mean())

    assert everywhere(5, work) == [10101, 1010, 10101, 1010, 10101]


def test_a_lost_worker_is_an_error():
    def work(peers):
        if peers.rank == 1:
            peers._sockets[0].close()
            return None
        return Direct(peers).all_reduce(np.zeros(3, np.float32))

    with pytest.raises(OSError):
        everywhere(2, work)

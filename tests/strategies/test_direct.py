"""All-to-all, all-gather and all-reduce give every worker its part, and the same sums."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everywhere import everywhere
from nodewise.strategies.transport import Direct


def collectively(workers, work):
    return everywhere(workers, lambda peers: work(Direct(peers)))


@given(
    sizes=st.integers(1, 5).flatmap(
        lambda n: st.lists(
            st.lists(st.integers(0, 9), min_size=n, max_size=n), min_size=n, max_size=n
        )
    )
)
def test_everybody_gets_what_is_meant_for_it(sizes):
    """Each worker sends a part of any size to each other one: sizes[from][to]."""

    def part(giver, taker):
        return np.full(sizes[giver][taker], 10 * giver + taker, np.float32)

    def work(direct):
        mine = [part(direct.rank, taker) for taker in range(direct.size)]
        return direct.all_to_all(mine)

    for taker, found in enumerate(collectively(len(sizes), work)):
        for giver, one in enumerate(found):
            np.testing.assert_array_equal(one, part(giver, taker))


@pytest.mark.parametrize(
    ("workers", "entries"),
    [
        (1, 5),
        (2, 1),
        (3, 100),
        (4, 2),
        (5, 0),
        (2, 1_000_000),  # larger than a socket's buffers
        (7, 300_001),
    ],
)
def test_the_sum_is_that_of_all_and_the_same_everywhere(workers, entries):
    values = np.random.default_rng(1).normal(size=(workers, entries)).astype(np.float32)
    sums = collectively(workers, lambda direct: direct.all_reduce(values[direct.rank]))
    for one in sums:
        np.testing.assert_allclose(one, values.sum(axis=0), rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(one, sums[0])


def test_some_peers_sum_among_themselves():
    def work(peers):
        values = np.full(7, 10.0**peers.rank, np.float32)
        return float(Direct(peers, range(peers.rank % 2, 5, 2)).all_reduce(values).mean())

    assert everywhere(5, work) == [10101, 1010, 10101, 1010, 10101]


def test_a_sum_of_parts_has_the_shape_of_its_part_and_leaves_the_parts_alone():
    def work(direct):
        parts = [np.ones((rank + 1, 3), np.float32) for rank in range(direct.size)]
        total = direct.reduce_scatter(parts)
        assert all((part == 1).all() for part in parts)
        return total

    for rank, total in enumerate(collectively(3, work)):
        np.testing.assert_array_equal(total, np.full((rank + 1, 3), 3))


def test_columns_of_a_matrix_arrive_as_the_matrix_that_they_are():
    def work(direct):
        matrix = np.arange(12, dtype=np.float32).reshape(3, 4) + 100 * direct.rank
        return direct.all_to_all([matrix[:, :1], matrix[:, 1:]])

    _, second = collectively(2, work)
    for giver, one in enumerate(second):
        expected = np.arange(12).reshape(3, 4)[:, 1:] + 100 * giver
        np.testing.assert_array_equal(one.reshape(3, 3), expected)


def test_large_parts_do_not_wait_for_each_other_without_end():
    size = 1_500_000  # larger than a socket's buffers

    def work(direct):
        found = direct.all_gather(np.full(size, direct.rank, np.float32))
        assert direct.seconds > 0
        return [float(one.mean()) for one in found]

    assert collectively(4, work) == [[0, 1, 2, 3]] * 4


def test_a_peer_that_is_gone_is_an_error():
    def work(direct):
        if direct.rank == 1:
            direct._peers._sockets[0].close()
            return None
        return direct.all_gather(np.zeros(3, np.float32))

    with pytest.raises(OSError):
        collectively(2, work)

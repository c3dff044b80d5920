"""A chain is cut so that its most expensive stage is as cheap as possible."""

from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from nodewise.models.cut import balanced


def costliest(costs, cuts):
    return max(sum(costs[a:b]) for a, b in pairwise((0, *cuts, len(costs))))


@given(st.lists(st.integers(0, 20), min_size=1, max_size=9), st.data())
def test_no_other_cut_is_better(costs, data):
    stages = data.draw(st.integers(1, len(costs)))
    cuts = balanced(costs, [1] * len(costs), stages)
    assert list(cuts) == sorted(set(cuts))
    assert len(cuts) == stages - 1
    every = combinations(range(1, len(costs)), stages - 1)
    assert costliest(costs, cuts) == min(costliest(costs, other) for other in every)


def test_of_equal_cuts_the_one_that_sends_less_is_taken():
    assert balanced([1, 0, 1], [5, 2, 9], 2) == (2,)


def test_a_long_chain_takes_no_time():
    assert balanced([1] * 160, [1] * 160, 40) == tuple(range(4, 160, 4))

"""A chain is cut so that its most expensive stage is as cheap as possible, then sends least."""

from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from nodewise.models.cut import balanced


@st.composite
def chains(draw):
    pieces = draw(st.integers(1, 9))
    costs = draw(st.lists(st.integers(0, 20), min_size=pieces, max_size=pieces))
    crossing = draw(st.lists(st.integers(1, 5), min_size=pieces, max_size=pieces))
    return costs, crossing, draw(st.integers(1, pieces))


def judged(costs, crossing, cuts):
    """Return the cost of the most expensive stage, and how much is sent between stages."""
    stages = [sum(costs[a:b]) for a, b in pairwise((0, *cuts, len(costs)))]
    return max(stages), sum(crossing[cut - 1] for cut in cuts)


@given(chains())
def test_no_other_cut_is_better(chain):
    costs, crossing, stages = chain
    cuts = balanced(costs, crossing, stages)
    assert list(cuts) == sorted(set(cuts))
    assert len(cuts) == stages - 1
    every = combinations(range(1, len(costs)), stages - 1)
    assert judged(costs, crossing, cuts) == min(judged(costs, crossing, other) for other in every)


def test_a_long_chain_takes_no_time():
    assert balanced([1] * 160, [1] * 160, 40) == tuple(range(4, 160, 4))

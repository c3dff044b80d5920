"""Staleness is counted as defined, its bound is kept, and gathered gradients have their weights."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nodewise.strategies.async_sgd.staleness import Gathering, Ledger

NOTHING = np.zeros(0, np.float32)


@given(st.lists(st.integers(0, 3), max_size=60), st.integers(1, 3))
def test_staleness_is_the_number_of_updates_since_the_pull(pushes, gathered):
    ledger, gathering = Ledger(4), Gathering(gathered, scaled=False)
    events = []
    for worker in pushes:
        last_pull = max((i for i, event in enumerate(events) if event == worker), default=-1)
        staleness = ledger.pushed(worker)
        assert staleness == events[last_pull + 1 :].count("update")
        if gathering.add(np.ones(1, np.float32), staleness):
            ledger.updated()
            events.append("update")
        ledger.pulled(worker)
        events.append(worker)
    assert events.count("update") == len(pushes) // gathered


@given(st.lists(st.integers(0, 4), max_size=80), st.integers(0, 3))
def test_nobody_begins_a_step_further_ahead_than_the_bound(attempts, bound):
    ledger, steps = Ledger(5, bound), [0] * 5
    for worker in attempts:
        assert ledger.must_wait(worker) == (steps[worker] - min(steps) > bound)
        if not ledger.must_wait(worker):
            assert ledger.lead(worker) <= bound
            ledger.pushed(worker)
            steps[worker] += 1
        assert not all(ledger.must_wait(one) for one in range(5))


def test_who_has_done_all_its_steps_holds_nobody_back():
    ledger = Ledger(3, bound=1)
    assert ledger.came(2, NOTHING) is None
    for _ in range(5):
        ledger.pushed(0)
        ledger.pushed(1)
    assert not ledger.must_wait(0)
    ledger.pushed(0)
    ledger.pushed(0)
    assert ledger.must_wait(0)
    assert ledger.came(1, NOTHING) is None
    assert not ledger.must_wait(0)


def test_the_mean_is_the_same_to_the_bit_in_any_order_of_coming():
    values = np.random.default_rng(0).normal(size=(5, 1000)).astype(np.float32)
    means = []
    for order in (range(5), (3, 1, 4, 0, 2)):
        ledger = Ledger(5)
        *_, mean = (ledger.came(worker, values[worker]) for worker in order)
        means.append(mean)
    assert means[0].tobytes() == means[1].tobytes()


@given(st.lists(st.integers(0, 20), min_size=1, max_size=8), st.booleans())
def test_an_update_moves_weights_as_its_gradients_do_at_their_own_rates(stalenesses, scaled):
    gradients = np.random.default_rng(1).normal(size=(len(stalenesses), 10)).astype(np.float32)
    gathering = Gathering(len(stalenesses), scaled=scaled)
    *early, update = (gathering.add(g, s) for g, s in zip(gradients, stalenesses, strict=True))
    assert early == [None] * (len(stalenesses) - 1)
    rates = [1 / max(1, s) if scaled else 1 for s in stalenesses]
    expected = np.mean([rate * g for rate, g in zip(rates, gradients, strict=True)], axis=0)
    assert update.gradient.dtype == np.float32
    np.testing.assert_allclose(update.factor * update.gradient, expected, rtol=1e-5, atol=1e-6)
    assert 0 < update.factor <= 1

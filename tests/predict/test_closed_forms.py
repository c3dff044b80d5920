"""Best numbers of nodes in closed form, compared with numeric minimisation of the laws."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from closed_forms import (
    best_at_global_batch,
    best_at_worker_batch,
    best_to_accuracy,
    break_even,
)
from nodewise.predict.laws.amdahl import Amdahl
from nodewise.predict.laws.averaging import ParameterAveraging
from nodewise.predict.laws.compressed import CompressedAllGather
from nodewise.predict.laws.ernest import Ernest
from nodewise.predict.laws.halving_doubling import HalvingDoubling
from nodewise.predict.laws.none import NoExchange
from nodewise.predict.laws.parameter_server import ParameterServer
from nodewise.predict.laws.pipeline import GPipe
from nodewise.predict.laws.pollux import Pollux
from nodewise.predict.laws.ring import RingAllReduce
from nodewise.predict.laws.star import Star
from nodewise.predict.laws.tree import BinomialTree
from nodewise.predict.laws.usl import Usl

LAWS = [
    NoExchange(),
    RingAllReduce(),
    HalvingDoubling(),
    BinomialTree(),
    Star(),
    ParameterAveraging(period=7),
    CompressedAllGather(density=0.03),
]
FAR = 1e9  # nodes, instead of infinity
MANY = 1e6  # end of the search
LEFT_OUT = {"compute_deviation_s", "jitter_s", "jitter_share", "input_per_example_s", "turns_share"}


def between(low, high):
    """Return a Hypothesis strategy of numbers between two powers of ten, and 0."""
    return st.just(0.0) | st.floats(low, high).map(lambda x: 10**x)


@st.composite
def values_of(draw, law):
    sizes = {"s": between(-5, 1), "s/B": between(-10, -6)}
    return {c.name: 0.0 if c.name in LEFT_OUT else draw(sizes[c.unit]) for c in law.parameters} | {
        "compute_per_example_s": 10 ** draw(st.floats(-5, 0))
    }


def least(objective, end=MANY):
    """Return the least value of a function of n from 1 to `end`, found by search."""
    grid = np.geomspace(1, end, 200)
    start = int(np.argmin(objective(grid)))
    bounds = np.log(grid[[max(start - 1, 0), min(start + 1, len(grid) - 1)]])
    found = minimize_scalar(
        lambda x: objective(np.exp(x)), bounds=bounds, method="bounded", options={"xatol": 1e-7}
    )
    return min(float(found.fun), float(objective(grid[start])))


def check(objective, best):
    """Check that no value of the function is less than at `best`, which may be infinite."""
    assert best >= 1
    at_best = float(objective(min(float(best), FAR)))
    assert at_best <= least(objective) * (1 + 1e-9)


payloads = between(2, 9)
batches = st.floats(0, 4).map(lambda x: 10**x)


@pytest.mark.parametrize("law", LAWS, ids=repr)
@given(data=st.data(), batch=batches, payload=payloads)
def test_at_a_fixed_global_batch(law, data, batch, payload):
    p = data.draw(values_of(law))
    best = best_at_global_batch(law, p, batch, payload)
    check(lambda n: law.evaluate(p, n, batch / n, payload), best)


@pytest.mark.parametrize("law", LAWS, ids=repr)
@given(data=st.data(), batch=batches, payload=payloads)
def test_at_a_fixed_batch_per_worker(law, data, batch, payload):
    p = data.draw(values_of(law))
    best = best_at_worker_batch(law, p, batch, payload)
    check(lambda n: law.evaluate(p, n, batch, payload) / n, best)
    assert best in (1, np.inf)


@pytest.mark.parametrize("law", [RingAllReduce(), Star()], ids=repr)
@given(data=st.data(), batch=batches, payload=payloads, noise=between(-1, 4))
def test_to_an_accuracy(law, data, batch, payload, noise):
    p = data.draw(values_of(law))
    best = best_to_accuracy(law, p, batch, payload, noise)
    check(lambda n: (1 + noise / n) * law.evaluate(p, n, batch, payload), best)


@pytest.mark.parametrize(
    "law",
    [NoExchange(), RingAllReduce(), ParameterAveraging(7), Star(), CompressedAllGather(0.03)],
    ids=repr,
)
@given(data=st.data(), batch=batches, payload=payloads)
def test_above_the_break_even_an_epoch_is_shorter(law, data, batch, payload):
    p = data.draw(values_of(law))
    threshold = float(break_even(law, p, batch, payload))
    assume(threshold == np.inf or threshold < MANY)

    def epoch(n):
        return law.evaluate(p, n, batch, payload) / n

    one, n = epoch(1.0), np.geomspace(1, MANY, 200)
    pays = epoch(n) < one * (1 - 1e-9)
    assert not pays[n < threshold * (1 - 1e-6)].any()
    if threshold < np.inf:
        assert (epoch(n[n > threshold]) <= one * (1 + 1e-9)).all()


def test_the_ring_by_hand():
    p = {
        "compute_fixed_s": 0.1,
        "compute_per_example_s": 1e-3,
        "latency_s": 1e-3,
        "seconds_per_byte": 1e-8,
    }
    # c₁G = 1, Sβ = 0.1, 2α = 0.002: √(0.8/0.002) = 20; at b = 100, A = 0.2: 0.2/(0.2 − 0.002)
    assert best_at_global_batch(RingAllReduce(), p, 1000, 1e7) == pytest.approx(20)
    assert break_even(RingAllReduce(), p, 100, 1e7) == pytest.approx(0.2 / 0.198)
    assert best_at_worker_batch(RingAllReduce(), p, 100, 1e7) == np.inf
    late = p | {"latency_s": 0.1}  # A = 2α: messages cost all the time that further nodes save.
    assert break_even(RingAllReduce(), late, 100, 1e7) == np.inf
    assert best_at_worker_batch(RingAllReduce(), late, 100, 1e7) == 1


@pytest.mark.parametrize("law", [Amdahl(), Usl(), Ernest()], ids=repr)
@given(data=st.data())
def test_baselines_at_a_fixed_batch_per_worker(law, data):
    p = {c.name: data.draw(between(-4, 0.5)) for c in law.parameters}
    assume(sum(p.values()) > 0)
    best = best_at_worker_batch(law, p, 1, 1)
    check(lambda n: law.evaluate(p, n, 1, 1) / n, best)


def test_what_has_no_closed_form_says_so():
    p = {c.name: 1.0 for c in (*RingAllReduce.parameters, *ParameterServer.parameters)}
    for law in (RingAllReduce(overlap=2.0), ParameterServer(), GPipe(4, 1e3)):
        assert best_at_global_batch(law, p, 64, 1e6) is None
        assert best_at_worker_batch(law, p, 64, 1e6) is None
        assert break_even(law, p, 64, 1e6) is None
        assert best_to_accuracy(law, p, 64, 1e6, 10) is None
    baseline = {c.name: 1.0 for c in Pollux.parameters}
    assert best_at_worker_batch(Pollux(), baseline, 64, 1e6) is None
    assert best_at_global_batch(Usl(), {}, 64, 1e6) is None
    assert best_to_accuracy(HalvingDoubling(), p, 64, 1e6, 10) is None

"""The baselines follow their authors' formulas, written as the time of a step."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewise.predict.laws.amdahl import Amdahl
from nodewise.predict.laws.ernest import Ernest
from nodewise.predict.laws.pollux import Pollux
from nodewise.predict.laws.usl import Usl

positive = st.floats(1e-3, 1e3)
share = st.floats(0, 1)
nodes = st.integers(1, 64)


def step(law, p, n):
    return law.evaluate(p, n, batch=1, payload=1)


def job(law, p, n):
    """Return the time of a job of fixed size, which takes 1/n as many steps on n nodes."""
    return step(law, p, n) / np.asarray(n)


@given(positive, st.floats(0, 1e3), nodes)
def test_amdahl_is_amdahls_law_of_the_job(parallel, serial, n):
    p = {"parallel_s": parallel, "serial_s": serial}
    f = serial / (parallel + serial)
    ratio = job(Amdahl(), p, n) / job(Amdahl(), p, 1)
    assert ratio == pytest.approx(f + (1 - f) / n)
    assert ratio <= 1 + 1e-12


@given(positive, share, st.floats(0, 0.1), nodes)
def test_usl_is_the_scalability_law_of_the_job(one_node, sigma, kappa, n):
    p = {"one_node_s": one_node, "contention": sigma, "coherency": kappa}
    speed_up = job(Usl(), p, 1) / job(Usl(), p, n)
    assert speed_up == pytest.approx(n / (1 + sigma * (n - 1) + kappa * n * (n - 1)))


@given(positive, share, nodes)
def test_without_coherency_usl_is_amdahl(one_node, f, n):
    usl = {"one_node_s": one_node, "contention": f, "coherency": 0.0}
    amdahl = {"parallel_s": (1 - f) * one_node, "serial_s": f * one_node}
    assert step(Usl(), usl, n) == pytest.approx(step(Amdahl(), amdahl, n))


def test_ernest_by_hand_and_linear_in_its_coefficients():
    law, unit = Ernest(), {"constant_s": 0.0, "log_s": 0.0, "per_node_s": 0.0}
    terms = np.array([step(law, unit | {name: 1.0}, [1, 2, 8]) for name in unit])
    assert terms == pytest.approx(np.array([[1, 1, 1], [0, np.log(2), np.log(8)], [1, 2, 8]]))
    p = {"constant_s": 0.3, "log_s": 0.2, "per_node_s": 0.1}
    assert step(law, p, [1, 2, 8]) == pytest.approx(np.array(list(p.values())) @ terms)


def pollux(g, s, r, x):
    return {"gradient_s": g, "sync_s": s, "sync_per_node_s": r, "overlap_excess": x}


def test_pollux_without_overlap_is_a_sum():
    assert step(Pollux(), pollux(2.0, 1.0, 0.5, 0.0), [1, 2, 3, 6]) == pytest.approx([2, 3, 3.5, 5])


@given(positive, positive, st.floats(0, 1e3), st.floats(0, 1e6), nodes)
def test_pollux_lies_between_perfect_overlap_and_none(g, s, r, x, n):
    sync = s + r * (n - 2) if n > 1 else 0.0
    found = step(Pollux(), pollux(g, s, r, x), n)
    assert max(g, sync) * (1 - 1e-9) <= found <= (g + sync) * (1 + 1e-9)
    # γ is at most 10: two equal times take at least 2^(1/10) of one
    assert step(Pollux(), pollux(g, g, 0.0, x), 2) >= g * 2**0.1 * (1 - 1e-9)


def test_pollux_has_the_exponent_that_it_says():
    gamma = 1 + 9 * 0.5 / 1.5  # = 4
    assert step(Pollux(), pollux(2.0, 1.0, 0.0, 0.5), 2) == pytest.approx(17 ** (1 / gamma))

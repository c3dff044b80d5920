"""The laws: their values, their bounds, and when more nodes pay."""

import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nodewise.overhead.formulas import Amdahl, Linear, RingAllReduce

LAWS = [RingAllReduce, Amdahl, Linear]
coefficient = st.floats(0, 1e3)
whole = st.integers(0, 60)


def ring(c0=0.0, c1=0.0, latency=0.0, per_byte=0.0):
    return RingAllReduce(c0, c1, latency, per_byte)


def test_importing_the_package_is_light():
    code = (
        "import sys, nodewise.overhead, nodewise.overhead.formulas\n"
        "assert not {'tensorflow', 'pandas', 'scipy'} & set(sys.modules)\n"
        "import nodewise.overhead.study, nodewise.published\n"
        "assert not {'tensorflow', 'keras', 'scipy.stats'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_ring_by_hand():
    law = ring(c0=1, c1=0.5, latency=0.25, per_byte=2)
    # compute 1 + 0.5·4 = 3; messages 0, 2, 6; bytes sent of a payload of 8: 0, 8, 12
    times = law.evaluate(nodes=[1, 2, 4], batch=4, payload=8)
    assert times.tolist() == [3, 3 + 0.5 + 16, 3 + 1.5 + 24]


def test_a_ring_sends_what_a_simulated_ring_sends():
    """Count messages and bytes of a ring all-reduce step by step."""
    payload = 24.0
    for nodes in (1, 2, 3, 4, 6):
        chunk = payload / nodes
        phases = 2 * (nodes - 1)  # n − 1 to sum, n − 1 to spread, one chunk each
        terms = RingAllReduce.design(nodes, 1, payload)
        assert terms[2] == phases
        assert terms[3] == pytest.approx(phases * chunk)


@given(coefficient, coefficient, coefficient, coefficient, st.floats(1, 1e4), st.floats(0, 1e9))
def test_ring_has_no_communication_on_one_node_and_grows_with_nodes(c0, c1, a, b, batch, payload):
    times = ring(c0, c1, a, b).evaluate(np.arange(1, 12), batch, payload)
    assert times[0] == pytest.approx(c0 + c1 * batch)
    assert (np.diff(times) >= -1e-9 * times[-1]).all()


@given(st.floats(1e-6, 1e3), st.floats(0, 1e3), st.integers(1, 1000))
def test_amdahl_is_amdahls_law_of_the_run(parallel, serial, nodes):
    law = Amdahl(parallel, serial)
    step = law.evaluate([1, nodes], 1, 1)
    run = step[1] / nodes / step[0]  # 1/n as many steps
    share = law.serial_share
    assert 0 <= share <= 1
    assert run == pytest.approx(share + (1 - share) / nodes)
    assert run <= 1 + 1e-12


@given(st.floats(1e-6, 1e3), st.floats(0, 1), st.integers(1, 64))
def test_linear_and_amdahl_are_one_line_wherever_nodes_help(one_node, share, nodes):
    line = Linear(one_node, share * one_node).evaluate(nodes, 1, 1)
    amdahl = Amdahl((1 - share) * one_node, share * one_node).evaluate(nodes, 1, 1)
    assert line == pytest.approx(amdahl)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("bad", [-1e-9, float("nan"), float("inf")])
def test_coefficients_are_finite_and_never_negative(law, bad):
    names = law.coefficients()
    for name in names:
        with pytest.raises(ValueError, match=name):
            law(**(dict.fromkeys(names, 1.0) | {name: bad}))


@pytest.mark.parametrize("law", LAWS)
def test_arguments_broadcast(law):
    times = law(*np.arange(1.0, 1 + len(law.coefficients())))
    shape = times.evaluate(np.ones((3, 1)), np.ones(4), np.ones((2, 1, 1))).shape
    assert shape == (2, 3, 4)
    assert law.design(np.ones(5), 1, 1).shape == (5, len(law.coefficients()))
    with pytest.raises(ValueError, match="at least one node"):
        times.evaluate([1, 0], 1, 1)
    assert law.source


@given(whole, whole, whole, whole, st.integers(1, 9), whole)
@example(c0=3, c1=0, latency=1, per_byte=1, batch=1, payload=1)  # threshold is exactly 2
@example(c0=2, c1=0, latency=1, per_byte=0, batch=1, payload=1)  # messages eat all that is saved
@example(c0=0, c1=0, latency=0, per_byte=0, batch=1, payload=0)  # nothing takes any time
def test_break_even_is_the_first_node_count_that_pays(c0, c1, latency, per_byte, batch, payload):
    """Brute force in exact fractions: whole numbers of each unit, so that ties are ties."""

    def epoch(nodes):
        sent = Fraction(2 * (nodes - 1) * payload * per_byte, nodes)
        return (c0 + c1 * batch + 2 * (nodes - 1) * latency + sent) / Fraction(nodes)

    found = ring(c0, c1, latency, per_byte).break_even(batch, payload)
    last = 2 * payload * per_byte + 2  # A − 2α is at least 1 where more nodes pay at all
    brute = next((n for n in range(2, last + 1) if epoch(n) < epoch(1)), None)
    assert found == brute


@given(coefficient, coefficient, coefficient, coefficient, st.floats(1, 1e4), st.floats(0, 1e9))
def test_break_even_in_real_numbers(c0, c1, latency, per_byte, batch, payload):
    law = ring(c0, c1, latency, per_byte)
    found = law.break_even(batch, payload)
    if found is None:
        return
    assert found >= 2
    if found < 1e6:
        one, before, at = law.evaluate([1, max(found - 1, 1), found], batch, payload)
        slack = 1e-9 * (one + before + at)
        assert at / found < one + slack
        assert before / max(found - 1, 1) > one - slack or found == 2


def test_break_even_beyond_any_number_is_never():
    assert ring(c0=5e-324, per_byte=1e300).break_even(1, 1e9) is None

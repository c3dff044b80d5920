"""The baselines follow their authors' formulas, written as the time of a step."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewise.predict.laws.amdahl import Amdahl
from nodewise.predict.laws.ernest import Ernest

positive = st.floats(1e-3, 1e3)
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


def test_ernest_by_hand_and_linear_in_its_coefficients():
    law, unit = Ernest(), {"constant_s": 0.0, "log_s": 0.0, "per_node_s": 0.0}
    terms = np.array([step(law, unit | {name: 1.0}, [1, 2, 8]) for name in unit])
    assert terms == pytest.approx(np.array([[1, 1, 1], [0, np.log(2), np.log(8)], [1, 2, 8]]))
    p = {"constant_s": 0.3, "log_s": 0.2, "per_node_s": 0.1}
    assert step(law, p, [1, 2, 8]) == pytest.approx(np.array(list(p.values())) @ terms)

"""The baselines follow their authors' formulas, written as the time of a step."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewise.predict.laws.amdahl import Amdahl

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

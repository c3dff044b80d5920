"""Least squares with bounds, beside SciPy's, which solves one right-hand side at a time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls

from nodewise.overhead import nonnegative


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 12),
    st.integers(1, 6),
    st.floats(0, 0.95),
    st.booleans(),
)
def test_it_is_what_scipy_finds(seed, coefficients, columns, alike, guessed):
    """Columns of the matrix may be nearly alike, and the guess may be anything."""
    rng = np.random.default_rng(seed)
    data = rng.normal(size=(2 * coefficients, coefficients))
    data = alike * data[:, :1] + (1 - alike) * data
    matrix = np.vstack([data, np.diag(rng.uniform(0.01, 1, coefficients))])
    right = rng.normal(size=(len(matrix), columns))
    free = rng.random(coefficients) < 0.5 if guessed else None
    found = nonnegative.solve(matrix, right, free)
    expected = np.stack([nnls(matrix, column)[0] for column in right.T], axis=1)
    assert found == pytest.approx(expected, abs=1e-7 * max(1, np.abs(expected).max()))
    assert (found >= 0).all()


def test_where_nothing_helps_all_is_0():
    assert nonnegative.solve(np.eye(3), -np.ones((3, 2))).tolist() == [[0, 0]] * 3

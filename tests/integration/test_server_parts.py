"""The part of a model that a server has: updated as the whole would be, or refused."""

import keras
import numpy as np
import pytest
from keras import layers

from nodewise.errors import RefusedError
from nodewise.strategies.base import Job
from nodewise.strategies.parameters import Part


def job(**dense) -> Job:
    def build() -> keras.Model:
        return keras.Sequential([keras.Input((4,)), layers.Dense(3, **dense)])

    return Job(0, 1, 8, 1, build, lambda: keras.optimizers.SGD(0.5))


def test_a_factor_is_no_reason_to_trace_the_update_again():
    part = Part(job(), 0, 1)
    before = part.weights.copy()
    gradient = np.ones_like(before)
    for factor in (1.0, 0.5, 0.25):
        part.apply(gradient, factor)
    np.testing.assert_allclose(part.weights, before - 0.5 * 1.75, rtol=1e-6)
    assert part._update.experimental_get_tracing_count() == 1


def test_a_constraint_is_kept_where_a_variable_is_whole_and_refused_where_it_is_cut():
    held = job(kernel_constraint=keras.constraints.MaxNorm(0.1))
    part = Part(held, 0, 1)
    part.apply(np.ones_like(part.weights), 1.0)
    assert np.linalg.norm(part.weights[:12].reshape(4, 3), axis=0).max() <= 0.1 + 1e-6
    with pytest.raises(RefusedError, match="kernel has a constraint, which needs all of it"):
        Part(held, 0, 2)

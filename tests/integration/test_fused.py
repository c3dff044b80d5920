"""Updates in one kernel are those of Keras, whatever else the optimizer does."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from nodewise.strategies.fused import fused

SCHEDULE = keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)
CASES = {
    "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
    "nesterov": lambda: keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True),
    "schedule": lambda: keras.optimizers.SGD(SCHEDULE, momentum=0.9),
    "clipped": lambda: keras.optimizers.SGD(0.1, momentum=0.9, global_clipnorm=0.5),
}
AS_THEY_ARE = {
    "plain": lambda: keras.optimizers.SGD(0.1),
    "adam": keras.optimizers.Adam,
}
STEPS = 6


def train(optimizer):
    """Return the variables after some steps, and those of the optimizer."""
    random = np.random.default_rng(1)
    variables = [
        keras.Variable(random.normal(size=shape), dtype="float32") for shape in ((7, 5), (5,))
    ]
    optimizer.build(variables)
    step = tf.function(lambda gradients: optimizer.apply(gradients, variables), autograph=False)
    for _ in range(STEPS):
        step([tf.constant(random.normal(size=v.shape), tf.float32) for v in variables])
    return [v.numpy() for v in (*variables, *optimizer.variables)]


@pytest.mark.parametrize("case", CASES)
def test_weights_and_state_are_those_of_keras(case):
    optimizer = fused(CASES[case]())
    assert "update_step" in vars(optimizer)
    for mine, keras_own in zip(train(optimizer), train(CASES[case]()), strict=True):
        np.testing.assert_allclose(mine, keras_own, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("case", AS_THEY_ARE)
def test_what_no_kernel_does_is_left_to_keras(case):
    assert "update_step" not in vars(fused(AS_THEY_ARE[case]()))

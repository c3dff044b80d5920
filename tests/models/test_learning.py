"""The small models learn: one pass over part of their data, in the measured loop.

The data is synthetic. No example is seen twice, so the score of a step, taken before its update, is
a score on unseen examples.
"""

import os

import numpy as np
import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from nodewise.data import synthetic
from nodewise.models import registry

BATCH = 64
STEPS = {"fashion_cnn": 150, "mnist_cnn": 100}
LEAST_ACCURACY = 0.5  # over the last quarter of the steps; chance: 0.1


@pytest.mark.slow
@pytest.mark.parametrize(("name", "steps"), STEPS.items())
def test_a_model_learns_from_a_few_thousand_examples(name, steps):
    import tensorflow as tf

    from nodewise.strategies.api import Job, plain
    from nodewise.strategies.single.worker import Strategy

    x, y = synthetic.draw((28, 28, 1), 10, steps * BATCH, seed=1, split=0)
    strategy = Strategy(Job(0, 1, BATCH, 1, registry.load(name).build))
    scores = []
    for start in range(0, steps * BATCH, BATCH):
        part = slice(start, start + BATCH)
        strategy.model.reset_metrics()
        logs = plain(strategy.step((tf.constant(x[part]), tf.constant(y[part]))))
        scores.append((logs["loss"], logs["accuracy"]))
    quarter = steps // 4
    first_loss, _ = np.mean(scores[:quarter], axis=0)
    loss, accuracy = np.mean(scores[-quarter:], axis=0)
    assert loss < 0.8 * first_loss
    assert accuracy > LEAST_ACCURACY

"""The small models learn: one pass over part of their data, in the measured loop.

No example is seen twice, so the score of a step, taken before its update, is a score on unseen
examples. The data is real if `NODEWISE_DATASETS` has it, else synthetic.
"""

import os
from pathlib import Path

import numpy as np
import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from nodewise import data as datasets
from nodewise.data import synthetic
from nodewise.models import registry

BATCH = 64
# model -> steps, least accuracy over the last quarter of them (chance: 0.1), shape of an image
EXPECTED = {
    "fashion_cnn": (150, 0.65, (28, 28, 1)),
    "mnist_cnn": (100, 0.75, (28, 28, 1)),
}


def examples(name, number, folder):
    """Return training examples of the model's dataset in random order, and their labels."""
    *_, shape = EXPECTED[name]
    mirror = os.environ.get("NODEWISE_DATASETS")
    if not mirror:
        return synthetic.draw(shape, 10, number, seed=1, split=0)
    dataset = registry.registry()[name].dataset
    datasets.prepare(
        dataset, registry=Path("data/datasets.yaml"), cache=folder / "cache", mirror=mirror,
        source="any", out=folder / "out", seed=1,
    )  # fmt: skip
    data = datasets.load(folder / "out" / "manifest.json")
    rows = np.random.default_rng(1).permutation(len(data.train[1]))[:number]
    return data.train[0][rows], data.train[1][rows]


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPECTED)
def test_a_model_learns_from_a_few_thousand_examples(name, tmp_path):
    import tensorflow as tf

    from nodewise.strategies.api import Job, plain
    from nodewise.strategies.single.worker import Strategy

    steps, floor, _ = EXPECTED[name]
    module = registry.load(name)
    x, y = examples(name, steps * BATCH, tmp_path)
    strategy = Strategy(Job(0, 1, BATCH, 1, module.build))
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
    assert accuracy > floor

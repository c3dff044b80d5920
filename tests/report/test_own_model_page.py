"""The examples of the page "Measure your own model" train as they are printed."""

import math

import keras
import pytest
import tensorflow as tf

import plugins
from nodewise import data as datasets
from nodewise.data import user_data
from nodewise.models import fit_options, user_model
from nodewise.strategies.api import Job, plain
from nodewise.strategies.replica import Replica

BATCH = 8
EXAMPLES = [  # (model, dataset)
    ("my_regression.py:build", "my_regression.py:load"),
    ("my_two_inputs.py:build", "my_two_inputs.py:load"),
    ("my_loss.py:build", "my_loss.py:load"),
    ("my_options.py:build", "my_options.py:load"),
    ("my_saved.py:build", "my_regression.py:load"),
    ("my_regression.py:build", "my_batches.py:load"),
    ("my_regression.py:build", "my_batches.py:load_py_dataset"),
    ("my_step.py:build", "my_step.py:load"),
]


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    for name in {place.partition(":")[0] for example in EXAMPLES for place in example}:
        (tmp_path / name).write_text(plugins.example(name, "own-model.md"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("model", "dataset"), EXAMPLES)
def test_an_example_trains(model, dataset, tmp_path):
    if model == "my_saved.py:build":
        user_model.building("my_loss.py:build")().save("my_loss.keras")
    user_data.prepare(dataset, tmp_path / "out")
    train = datasets.load(tmp_path / "out/manifest.json").train
    batch = tf.nest.map_structure(lambda array: tf.constant(array[:BATCH]), train)
    spec = tf.nest.map_structure(lambda one: tf.TensorSpec(one.shape, one.dtype), batch)
    replica = Replica(Job(0, 1, BATCH, 1, user_model.building(model), batch=spec))
    before = replica.model.get_weights()
    assert math.isfinite(plain(replica.step(batch))["loss"])
    after = replica.model.get_weights()
    assert any((old != new).any() for old, new in zip(before, after, strict=True))


def test_the_options_of_the_example_are_those_that_it_returns():
    options = fit_options.of(user_model.building("my_options.py:build")())
    assert options.class_weight == {0: 1.0, 1: 5.0}
    assert [type(one) for one in options.callbacks] == [
        keras.callbacks.LearningRateScheduler,
        keras.callbacks.ReduceLROnPlateau,
        keras.callbacks.ModelCheckpoint,
    ]

"""What a function of the user's may return as a model, and what is said of everything else.

That models of any kind train as in `fit` is tested in test_kinds.py.
"""

from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from nodewise.core.errors import UserError
from nodewise.models import user_model
from nodewise.strategies.api import Job
from nodewise.strategies.replica import Replica

HEAD = """
import keras
from keras import layers

def build():
"""
BATCH = tf.TensorSpec((8, 4), tf.float32), tf.TensorSpec((8,), tf.int64)


@pytest.fixture
def building(tmp_path, monkeypatch):
    """Return a function: what builds the model of a file with this body of `build`."""
    monkeypatch.chdir(tmp_path)

    def of(body):
        Path("mine.py").write_text(HEAD + "".join(f"    {line}\n" for line in body.splitlines()))
        return user_model.building("mine.py:build")

    return of


def refusal(function):
    with pytest.raises(UserError) as caught:
        function()
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return None", "mine.py:build: must return a keras.Model, not nothing"),
        ("return 3", "mine.py:build: must return a keras.Model, not a int"),
        (
            "return keras.Sequential([keras.Input((4,)), layers.Dense(3)])",
            "mine.py:build: the model is not compiled; call model.compile(optimizer=…, loss=…)",
        ),
        ("raise ValueError('no such\\nthing')", "mine.py:build: ValueError: no such (mine.py:"),
        ("return layers.Dense(3)(1, 2, 3)", "mine.py:build: "),
    ],
)
def test_what_is_no_compiled_model_is_told_in_one_line(building, body, said):
    assert said in refusal(building(body))


COMPILED = """
model = keras.Sequential([keras.Input((4,)), layers.Dense(3)])
model.compile("sgd", keras.losses.{loss}(from_logits=True))
return model
"""


def test_a_model_trains_as_it_was_compiled(building):
    build = building(COMPILED.format(loss="SparseCategoricalCrossentropy"))
    replica = Replica(Job(0, 1, 8, 1, build, batch=BATCH))
    assert isinstance(replica.model.optimizer, keras.optimizers.SGD)
    before = replica.model.get_weights()
    replica.step((tf.ones((8, 4)), tf.zeros((8,), tf.int64)))
    after = replica.model.get_weights()
    assert any(not np.array_equal(a, b) for a, b in zip(before, after, strict=True))


def test_what_goes_wrong_in_a_step_is_told_with_the_user_s_function(building):
    build = building(COMPILED.format(loss="CategoricalCrossentropy"))
    said = refusal(lambda: Replica(Job(0, 1, 8, 1, build, batch=BATCH)))
    assert said.startswith("mine.py:build: ValueError: ")


OWN_STEP = """
class Own(keras.Model):
    def train_step(self, data):
        return {"loss": undefined}
model = Own()
model.compile("sgd", "mse")
return model
"""


def test_what_goes_wrong_in_a_train_step_is_told_with_its_line(building):
    build = building(OWN_STEP)
    said = refusal(lambda: Replica(Job(0, 1, 8, 1, build, batch=BATCH)))
    assert said == "mine.py:build: NameError: name 'undefined' is not defined (mine.py:9)"

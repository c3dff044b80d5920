"""Keras on JAX trains and evaluates on all workers, and refuses what only TensorFlow computes."""

from functools import partial
from importlib.util import find_spec

import pytest
from training_job import Case

import local_job
from local_job import failure, results
from nodewise.core.errors import RefusedError
from nodewise.strategies import STRATEGIES, declaration

EXAMPLES = 4


def built(kind):
    import keras
    import tensorflow as tf

    class Layer(keras.layers.Layer):
        def call(self, x):
            if kind == "layer":
                return tf.nn.relu(x)
            return keras.ops.add(x, tf.random.normal((3,))) if kind == "random" else x

    class OfTensorFlow(keras.Model):
        def train_step(self, data):
            return {"loss": tf.zeros([])}

    class OfJax(keras.Model):
        def train_step(self, state, data):
            logs, state = super().train_step(state, data)
            return logs | {"own": keras.ops.array(7.0)}, state

    x = keras.Input((3,))
    y = keras.layers.Dense(1)(Layer()(x))
    model = {"train_step": OfTensorFlow, "own": OfJax}.get(kind, keras.Model)(x, y)
    model.compile("sgd", "mse", metrics=["mae"])
    return model


def train(rank, addresses, _, *, case, out):
    """Train a step of a small model, then evaluate it; workers have other batches."""
    import numpy as np
    import tensorflow as tf

    kind = tf.string if case.model == "text" else tf.float32
    spec = tf.TensorSpec((EXAMPLES, 3), kind), tf.TensorSpec((EXAMPLES, 1), tf.float32)
    build, whole = partial(built, case.model), case.nodes * EXAMPLES
    trained = local_job.make_strategy(case, rank, addresses, build, whole, batch=spec)
    x = np.arange(12, dtype=np.float32).reshape(EXAMPLES, 3) + rank
    logs = trained.step((tf.constant(x), tf.ones((EXAMPLES, 1))))
    weights, bias = trained.weights()
    batches = [(x, np.ones((EXAMPLES, 1))), (x[: 1 + rank], np.ones((1 + rank, 1)))]
    rows = np.concatenate([one for one, _ in batches])
    return {
        "logs": {name: float(value) for name, value in logs.items()},
        "weights": [*weights.ravel().tolist(), *bias.tolist()],
        "tested": trained.evaluate(iter(batches))["mae"],
        "mae": float(np.abs(rows @ weights + bias - 1).mean()),
        "device": trained.device(),
    }


@pytest.fixture(scope="module")
def trained(tmp_path_factory, run_job):
    out = tmp_path_factory.mktemp("jax")
    nodes = {"own": 3, "layer": 1, "random": 1, "text": 1, "train_step": 1}
    cases = {kind: Case("keras_jax", count, kind) for kind, count in nodes.items()}
    run_job(local_job.train_cases, out, cases, train, backend="jax")
    return out


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("layer", "the model calls TensorFlow, whose operations do not run on JAX"),
        ("random", "the model calls TensorFlow, whose operations do not run on JAX"),
        ("text", "JAX cannot train on strings"),
        ("train_step", "train_step(self, state, data)"),
    ],
)
def test_what_jax_cannot_train_is_refused(trained, kind, told):
    assert told in failure(trained / kind)["error"]


def test_a_step_of_one_s_own_trains_and_each_worker_evaluates_its_own_examples(trained):
    done = results(trained / "own")
    assert [one["logs"]["own"] for one in done] == [7, 7, 7]
    assert done[0]["weights"] == done[1]["weights"] == done[2]["weights"]
    assert [one["tested"] for one in done] == pytest.approx([one["mae"] for one in done], rel=1e-5)
    assert {one["device"] for one in done} == {"CPU, 1 thread"}


def test_without_jax_one_line_says_how_to_get_it(monkeypatch):
    STRATEGIES["keras_jax"].check_available()
    found = lambda name: None if name == "jax" else find_spec(name)  # noqa: E731
    monkeypatch.setattr(declaration, "find_spec", found)
    with pytest.raises(RefusedError, match=r"jax is not installed\. To allow it, run: make jax"):
        STRATEGIES["keras_jax"].check_available()

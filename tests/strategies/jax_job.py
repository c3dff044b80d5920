"""Train a step of a small model with keras_jax, then evaluate it; workers have other batches."""

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import local_job
from nodewise.cluster.channel import Channel

EXAMPLES = 4


class Case(NamedTuple):
    """A model, a name of `built`, and how many workers train it."""

    model: str
    nodes: int = 1
    strategy: str = "keras_jax"
    options: dict[str, Any] = {}  # noqa: RUF012


def main(out: Path, cases: dict[str, Case]) -> None:
    local_job.train_cases(out, cases, train)


def built(kind: str) -> Any:
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


def train(
    rank: int, addresses: tuple[str, ...], _: Channel, *, case: Case, out: Path
) -> dict[str, Any]:
    import numpy as np
    import tensorflow as tf

    kind = tf.string if case.model == "text" else tf.float32
    spec = tf.TensorSpec((EXAMPLES, 3), kind), tf.TensorSpec((EXAMPLES, 1), tf.float32)
    whole = case.nodes * EXAMPLES + (case.model == "unequal")
    build = partial(built, case.model)
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

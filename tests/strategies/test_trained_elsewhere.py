"""Weights that are no weights of the model: of a closure's layer, and plain variables."""

import keras
import pytest
import tensorflow as tf

from nodewise.core.errors import RefusedError
from nodewise.strategies import replica
from nodewise.strategies.api import Job
from nodewise.strategies.async_sgd.worker import Pushing
from nodewise.strategies.declaration import STRATEGIES
from nodewise.strategies.parameter_averaging import worker

BATCH = (tf.TensorSpec([8, 3]), tf.TensorSpec([8, 1]))


def built(kind, made):
    """Return a model whose step trains a weight that the model itself does not list."""
    last = keras.layers.Dense(1) if kind == "closure" else None

    class Own(keras.Sequential):
        def train_step(self, batch):
            x, y = batch
            with tf.GradientTape() as tape:
                outputs = last(self(x)) if last else self.scale * self(x)
                loss = self.compute_loss(x, y, outputs)
            known = [*self.trainable_variables, *(last.trainable_variables if last else ())]
            *own, scale = tape.gradient(loss, [*known, self.scale])
            self.optimizer.apply(own, known)
            if not last:
                self.scale.assign_sub(0.1 * scale)
            return {"loss": loss}

    model = Own([keras.Input((3,)), keras.layers.Dense(1)])
    model.scale = tf.Variable(1.0)
    if last:
        last.build((None, 1))
    model.compile("sgd", "mse")
    model.optimizer.build([*model.trainable_variables, *(last.weights if last else ())])
    made.append(last.bias if last else model.scale)
    return model


class Zeros(replica.Exchange):
    """The sum over workers that are all 0."""

    def sum(self, values):
        return tf.zeros_like(values)


@pytest.mark.parametrize("kind", ["closure", "plain"])
def test_parameter_averaging_averages_them(monkeypatch, kind):
    monkeypatch.setattr(worker, "RingAllReduce", Zeros)
    options, made = STRATEGIES["parameter_averaging"].options(period=1), []
    job = Job(0, 2, 16, 1, lambda: built(kind, made), options, batch=BATCH)
    trained = worker.Strategy(job)
    before = trained.weights_sha256()
    made[0].assign(tf.ones_like(made[0]))
    assert (trained.weights_sha256() != before) is (kind == "plain")
    trained.step((tf.ones([8, 3]), tf.ones([8, 1])))
    assert made[0].numpy() == 0


def test_servers_do_not_have_them():
    job = Job(0, 2, 16, 1, lambda: built("closure", []), batch=BATCH)
    with pytest.raises(RefusedError, match=r"trains dense.*, which is no weight of the model"):
        Pushing(job, tf.identity)

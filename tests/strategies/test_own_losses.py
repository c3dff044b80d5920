"""Losses of users that several workers would train differently than one process are refused."""

from contextlib import nullcontext

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers, ops

from nodewise.core.errors import RefusedError
from nodewise.strategies import per_worker
from nodewise.strategies.api import Job


def mean(y, p):
    return ops.mean(ops.square(y - p))


def total(y, p):
    return ops.sum(ops.square(y - p))


class Total(keras.losses.Loss):
    def call(self, y, p):
        return total(y, p)


@pytest.mark.parametrize("by_name", [False, True])
@pytest.mark.parametrize(
    ("loss", "averaged", "added"),
    [
        ("mse", True, True),
        (keras.losses.MeanSquaredError(), True, True),
        (lambda y, p: ops.mean(ops.square(y - p), axis=-1), True, True),
        (mean, True, False),
        (total, False, True),
        (Total(), False, True),
        (lambda y, p: 1 - 2 * ops.sum(y * p) / ops.sum(y + p), False, False),
        ("dice", False, False),
        (keras.losses.Tversky(), False, False),
        (keras.losses.Dice(axis=1), True, True),
        (lambda y, p: 1 / 0, True, True),  # what goes wrong is told when it trains
    ],
)
def test_which_losses_may_be_averaged_or_added_over_workers(loss, averaged, added, by_name):
    x = keras.Input((3,))
    large, small = layers.Dense(5000, name="mask")(x), layers.Dense(1)(x)
    model = keras.Model(x, [large, small] if by_name else large)
    model.compile("sgd", {"mask": loss} if by_name else loss)
    y = tf.TensorSpec((8, 5000)), tf.TensorSpec((8, 1))
    batch = tf.TensorSpec((8, 3)), y if by_name else y[0]
    one, two = (Job(0, size, 16, 1, lambda: model, batch=batch) for size in (1, 2))
    for check, fine, said in (
        (per_worker.check, averaged, "is not the mean of its values"),
        (per_worker.check_added, added, "returns one number for a batch"),
    ):
        with nullcontext() if fine else pytest.raises(RefusedError, match=said):
            check(model, two)
    per_worker.check(model, one)
    per_worker.check(model, Job(0, 2, 16, 1, lambda: model, batch=2 * batch))  # of one's own step


SUM = keras.losses.MeanSquaredError(reduction="sum")


def among_the_batch(y, p):
    """Compare examples with each other, as contrastive losses do: equal ones have no gradient."""
    alike = ops.matmul(p, ops.transpose(y))
    return keras.losses.categorical_crossentropy(ops.eye(ops.shape(p)[0]), alike, from_logits=True)


@pytest.mark.parametrize(
    ("loss", "averaged", "dropout"),
    [
        (mean, True, 0.5),
        (total, False, 0.5),
        (keras.losses.mean_squared_error, True, 0.5),
        (SUM, False, 0.5),
        (among_the_batch, True, 0.0),
        (lambda y, p: ops.sum(among_the_batch(y, p)), False, 0.0),
    ],
)
def test_a_train_step_whose_loss_is_a_sum_is_refused(loss, averaged, dropout):
    class Own(keras.Sequential):
        def train_step(self, batch):
            x, y = batch
            with tf.GradientTape() as tape:
                value = tf.reduce_mean(loss(y, self(x, training=True)))
            gradients = tape.gradient(value, self.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
            return {"loss": value}

    model = Own([keras.Input((6,)), layers.Dropout(dropout), layers.Dense(9), layers.Dense(2)])
    model.compile("adam")
    before = [one.numpy() for one in model.variables]
    batch = tf.TensorSpec((8, 6)), tf.TensorSpec((8, 2))
    with nullcontext() if averaged else pytest.raises(RefusedError, match="grow with the batch"):
        per_worker.check(model, Job(0, 2, 16, 1, lambda: model, batch=batch))
    for variable, value in zip(model.variables, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)

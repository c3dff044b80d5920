"""Losses of users that several workers would train differently than one process are refused."""

import keras
import pytest
import tensorflow as tf
from keras import ops

from nodewise.core.errors import RefusedError
from nodewise.strategies import per_worker
from nodewise.strategies.api import Job


def each(y, p):
    return ops.mean(ops.square(y - p), axis=-1)


def mean(y, p):
    return ops.mean(ops.square(y - p))


def total(y, p):
    return ops.sum(ops.square(y - p))


def dice(y, p):
    return 1 - 2 * ops.sum(y * p) / ops.sum(y + p)


def fussy(y, p):
    raise ValueError("these labels cannot be")


class Total(keras.losses.Loss):
    def call(self, y, p):
        return total(y, p)


AVERAGED, ADDED = "is not the mean of its values", "returns one number for a batch"


def checked(check, loss, size=2, outputs=1):
    inputs = keras.Input((3,))
    layers = [keras.layers.Dense(2) for _ in range(outputs)]
    model = keras.Model(inputs, [layer(inputs) for layer in layers])
    model.compile("sgd", loss)
    labels = (tf.TensorSpec((8, 2)),) * outputs
    batch = (tf.TensorSpec((8, 3)), labels if outputs > 1 else labels[0])
    check(model, Job(0, size, 16, 1, lambda: model, batch=batch))


@pytest.mark.parametrize("loss", ["mse", keras.losses.MeanSquaredError(), each, mean, fussy])
def test_losses_that_may_be_averaged(loss):
    checked(per_worker.check, loss)


@pytest.mark.parametrize("loss", [total, dice, Total()], ids=lambda loss: type(loss).__name__)
def test_losses_that_may_not_be_averaged(loss):
    with pytest.raises(RefusedError, match=AVERAGED):
        checked(per_worker.check, loss)
    checked(per_worker.check, loss, size=1)


@pytest.mark.parametrize("loss", ["mse", each, total, Total(), fussy])
def test_losses_that_may_be_added(loss):
    checked(per_worker.check_added, loss)


@pytest.mark.parametrize("loss", [mean, dice])
def test_losses_that_may_not_be_added(loss):
    with pytest.raises(RefusedError, match=ADDED):
        checked(per_worker.check_added, loss)

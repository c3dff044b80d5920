"""Losses of users that several workers would train differently than one process are refused."""

from contextlib import nullcontext

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


@pytest.mark.parametrize(
    ("loss", "averaged", "added"),
    [
        ("mse", True, True),
        (keras.losses.MeanSquaredError(), True, True),
        (each, True, True),
        (mean, True, False),
        (total, False, True),
        (Total(), False, True),
        (dice, False, False),
        (fussy, True, True),  # what goes wrong is told when it trains
    ],
)
def test_which_losses_may_be_averaged_or_added_over_workers(loss, averaged, added):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile("sgd", loss)
    batch = tf.TensorSpec((8, 3)), tf.TensorSpec((8, 2))
    one, two = (Job(0, size, 16, 1, lambda: model, batch=batch) for size in (1, 2))
    for check, fine, said in (
        (per_worker.check, averaged, "is not the mean of its values"),
        (per_worker.check_added, added, "returns one number for a batch"),
    ):
        with nullcontext() if fine else pytest.raises(RefusedError, match=said):
            check(model, two)
    per_worker.check(model, one)

"""A loss function that returns one number for a batch, which is a sum over the examples."""

import keras
from keras import layers, ops

from kinds import numbers


def total(y, predicted):
    return ops.sum(ops.square(y - predicted))


def compiled(loss, rate):
    model = keras.Sequential(
        [keras.Input((8,)), layers.Dense(8, activation="tanh"), layers.Dense(1)]
    )
    model.compile(keras.optimizers.SGD(rate), loss)
    return model


def build():
    return compiled(total, 0.01)


def load():
    x = numbers(8)
    return (x, x.sum(axis=1, keepdims=True)), None

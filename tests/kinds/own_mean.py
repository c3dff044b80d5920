"""A loss function that returns one number for a batch, which is a mean over the examples."""

import keras
from keras import layers, ops

from kinds import numbers


def mean(y, predicted):
    return ops.mean(ops.square(y - predicted))


def build():
    model = keras.Sequential(
        [keras.Input((8,)), layers.Dense(8, activation="tanh"), layers.Dense(1)]
    )
    model.compile(keras.optimizers.SGD(0.1), mean)
    return model


def load():
    x = numbers(8)
    return (x, x.sum(axis=1, keepdims=True)), None

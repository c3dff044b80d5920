"""Losses that layers add: an activity regularizer, a sum over the examples, and `add_loss`."""

import keras
from keras import layers, ops

from kinds import numbers

PER_WORKER = "losses that layers add"


class Small(layers.Layer):
    def call(self, x, training=False):
        if training:
            self.add_loss(0.1 * ops.mean(ops.square(x)))
        return x


def build():
    model = keras.Sequential(
        [
            keras.Input((8,)),
            layers.Dense(8, activation="tanh", activity_regularizer="l2"),
            Small(),
            layers.Dense(1),
        ]
    )
    model.compile(keras.optimizers.SGD(0.1), "mse")
    return model


def load():
    x = numbers(8)
    return (x, x.sum(axis=1, keepdims=True)), None

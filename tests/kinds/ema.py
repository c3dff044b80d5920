"""Averages of the weights, which become the weights in the end."""

import keras
from keras import layers

from kinds import numbers


def build():
    model = keras.Sequential(
        [keras.Input((8,)), layers.Dense(8, activation="tanh"), layers.Dense(1)]
    )
    model.compile(keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.5), "mse")
    return model


def load():
    x = numbers(8)
    return (x, x.sum(axis=1, keepdims=True)), None

"""A loss that is divided by the weights of the examples."""

import keras
from keras import layers

from kinds import numbers

PER_WORKER = "sample weights"


def build():
    model = keras.Sequential(
        [keras.Input((8,)), layers.Dense(8, activation="tanh"), layers.Dense(1)]
    )
    loss = keras.losses.MeanSquaredError(reduction="mean_with_sample_weight")
    model.compile(keras.optimizers.SGD(0.1), loss)
    return model


def load():
    x = numbers(8)
    return (x, x.sum(axis=1, keepdims=True), abs(numbers(seed=3))), None

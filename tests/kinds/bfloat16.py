"""Computed in bfloat16, on weights in float32."""

import keras
from keras import layers

from kinds import numbers

TOLERANCE = 1e-3


def build():
    policy = keras.DTypePolicy("mixed_bfloat16")
    model = keras.Sequential(
        [
            keras.Input((8,)),
            layers.Dense(16, activation="tanh", dtype=policy),
            layers.Dense(1, dtype="float32"),
        ]
    )
    model.compile(keras.optimizers.SGD(0.01), "mse")
    return model


def load():
    x = numbers(8)
    return (x, x.sum(axis=1, keepdims=True)), None

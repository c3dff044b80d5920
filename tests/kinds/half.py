"""mixed_float16 for the whole model: Keras itself scales the loss."""

import keras
from keras import layers

from kinds import numbers

TOLERANCE = 1e-3


def build():
    policy = keras.DTypePolicy("mixed_float16")
    model = keras.Sequential(
        [
            keras.Input((8,)),
            layers.Dense(16, activation="tanh", dtype=policy),
            layers.Dense(1, dtype=policy),
        ],
    )
    model.dtype_policy = policy
    model.compile(keras.optimizers.SGD(0.01), "mse")
    return model


def load():
    x = numbers(8)
    return (x, 0.1 * x.sum(axis=1, keepdims=True)), None

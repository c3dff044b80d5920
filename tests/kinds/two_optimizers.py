"""An optimizer that consists of two: one of them clips the gradients of its layer."""

import keras
from keras import layers

from kinds import numbers


def build():
    model = keras.Sequential(
        [keras.Input((8,)), layers.Dense(8, activation="tanh", name="hidden"), layers.Dense(1)]
    )
    clipping = keras.optimizers.Adam(0.01, epsilon=1e-4, global_clipnorm=0.1)
    by_path = keras.optimizers.OptimizerMap(keras.optimizers.SGD(0.1), {".*hidden.*": clipping})
    model.compile(keras.optimizers.MultiOptimizer(by_path), "mse")
    return model


def load():
    x = numbers(8)
    return (x, x.sum(axis=1, keepdims=True)), None

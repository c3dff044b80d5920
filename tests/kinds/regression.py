"""Regression with an L2 regularizer, and clipping of all gradients together."""

import keras
import numpy as np
from keras import layers

EXAMPLES = 48


def build():
    model = keras.Sequential(
        [
            keras.Input((8,)),
            layers.Dense(16, activation="tanh", kernel_regularizer=keras.regularizers.L2(0.01)),
            layers.Dense(1),
        ]
    )
    model.compile(
        keras.optimizers.SGD(0.1, momentum=0.9, global_clipnorm=0.5), "mse", metrics=["mae"]
    )
    return model


def load():
    random = np.random.default_rng(1)
    x = random.normal(size=(EXAMPLES, 8)).astype("float32")
    train = x, x.sum(axis=1, keepdims=True)
    return train, train

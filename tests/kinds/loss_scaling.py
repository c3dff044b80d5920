"""float16 with a scaled loss."""

import keras
import numpy as np
from keras import layers

EXAMPLES = 48
TOLERANCE = 1e-3


def build():
    policy = keras.DTypePolicy("mixed_float16")
    model = keras.Sequential(
        [
            keras.Input((8,)),
            layers.Dense(16, activation="tanh", dtype=policy),
            layers.Dense(1, dtype="float32"),
        ]
    )
    inner = keras.optimizers.SGD(0.01)
    model.compile(keras.optimizers.LossScaleOptimizer(inner, initial_scale=1024.0), "mse")
    return model


def load():
    random = np.random.default_rng(1)
    x = random.normal(size=(EXAMPLES, 8)).astype("float32")
    train = x, x.sum(axis=1, keepdims=True)
    return train, train

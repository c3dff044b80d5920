"""A frozen layer, weights that nothing depends on, and a schedule of learning rates."""

import keras
import numpy as np
from keras import layers

EXAMPLES = 48


def build():
    x = keras.Input((8,))
    still = layers.Dense(8, activation="tanh")
    still.trainable = False
    unused = layers.Dense(4)
    hidden = still(x)
    model = keras.Model(x, {"size": layers.Dense(1)(hidden), "unused": unused(hidden)})
    rates = keras.optimizers.schedules.CosineDecay(0.1, 10)
    model.compile(keras.optimizers.SGD(rates, momentum=0.9), {"size": "mse"})
    return model


def load():
    random = np.random.default_rng(1)
    x = random.normal(size=(EXAMPLES, 8)).astype("float32")
    train = x, {"size": x.sum(axis=1, keepdims=True)}
    return train, train

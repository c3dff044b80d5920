"""Gradients of three steps are added up before an update; weights are averaged."""

import keras
import numpy as np
from keras import layers

EXAMPLES = 72


def build():
    model = keras.Sequential(
        [keras.Input((8,)), layers.Dense(8, activation="tanh"), layers.Dense(1)]
    )
    optimizer = keras.optimizers.Adam(0.01, gradient_accumulation_steps=3, use_ema=True)
    model.compile(optimizer, "mse")
    return model


def load():
    random = np.random.default_rng(1)
    x = random.normal(size=(EXAMPLES, 8)).astype("float32")
    train = x, x.sum(axis=1, keepdims=True)
    return train, train

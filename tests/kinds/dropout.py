"""Dropout: each worker drops other units."""

import keras
from keras import layers

from kinds import integers, numbers

PER_WORKER = "random numbers"


def build():
    model = keras.Sequential(
        [
            keras.Input((8,)),
            layers.Dense(16, activation="relu"),
            layers.Dropout(0.5),
            layers.GaussianNoise(0.1),
            layers.Dense(3),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1), loss)
    return model


def load():
    return (numbers(8), integers(3)), None

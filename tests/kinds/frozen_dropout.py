"""Dropout in a frozen model: its weights stay, its random numbers go on."""

import keras
from keras import layers

from kinds import integers, numbers

PER_WORKER = "random numbers"


def build():
    frozen = keras.Sequential(
        [keras.Input((8,)), layers.Dense(16, activation="tanh"), layers.Dropout(0.5)]
    )
    frozen.trainable = False
    model = keras.Sequential([frozen, layers.Dense(3)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1), loss)
    return model


def load():
    return (numbers(8), integers(3)), None

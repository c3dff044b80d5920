"""Several labels per example."""

import keras
from keras import layers

from kinds import integers, numbers


def build():
    model = keras.Sequential(
        [keras.Input((8,)), layers.Dense(8, activation="tanh"), layers.Dense(5, "sigmoid")]
    )
    loss = keras.losses.BinaryFocalCrossentropy()
    model.compile(keras.optimizers.Nadam(0.01), loss, metrics=[keras.metrics.AUC(multi_label=True)])
    return model


def load():
    return (numbers(8), integers(2, 5).astype("bool")), None

"""A model of keras.applications, with random weights."""

import keras
from keras import layers

from kinds import integers, numbers

PER_WORKER = "batch statistics"


def build():
    network = keras.applications.MobileNet(
        (32, 32, 1), alpha=0.25, include_top=False, weights=None, pooling="avg"
    )
    model = keras.Sequential([network, layers.Dense(3)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.01), loss)
    return model


def load():
    return (numbers(32, 32, 1), integers(3)), None

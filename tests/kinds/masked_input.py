"""Sentences of several lengths with one label each: a mask ends inside of the model."""

import keras
from keras import layers

from kinds import integers


def build():
    model = keras.Sequential(
        [
            keras.Input((6,), dtype="int32"),
            layers.Embedding(20, 4, mask_zero=True),
            layers.GRU(5),
            layers.Dense(3),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1), loss)
    return model


def load():
    return (integers(4, 6).astype("int32"), integers(3)), None

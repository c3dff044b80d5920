"""Sentences of several lengths: a mask goes through an LSTM up to one label per word."""

import keras
from keras import layers

from kinds import integers

PER_WORKER = "masks"


def build():
    model = keras.Sequential(
        [
            keras.Input((6,), dtype="int32"),
            layers.Embedding(20, 4, mask_zero=True),
            layers.LSTM(5, return_sequences=True),
            layers.Dense(3),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1), loss)
    return model


def load():
    words = integers(20, 6)
    lengths = 1 + integers(6, seed=3)
    words[[[place >= length for place in range(6)] for length in lengths]] = 0
    return (words.astype("int32"), integers(3, 6)), None

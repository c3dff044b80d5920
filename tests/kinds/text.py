"""Strings as input: a layer that was adapted to them makes them numbers."""

import keras
import numpy as np
from keras import layers

from kinds import integers

WORDS = np.array(["one", "two", "three", "four", "five"])


def sentences():
    return np.array([" ".join(WORDS[row]) for row in integers(5, 4)])


def build():
    words = layers.TextVectorization(output_sequence_length=4, output_mode="int")
    words.adapt(sentences())
    model = keras.Sequential(
        [
            keras.Input((), dtype="string"),
            words,
            layers.Embedding(8, 4),
            layers.GlobalAveragePooling1D(),
            layers.Dense(2),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1), loss)
    return model


def load():
    return (sentences().astype(object), integers(2, seed=3)), None

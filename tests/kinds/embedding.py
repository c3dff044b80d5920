"""An embedding of few words, whose gradient has only some rows, with Adam."""

import keras
import numpy as np
from keras import layers

EXAMPLES = 48


def build():
    model = keras.Sequential(
        [
            keras.Input((6,), dtype="int32"),
            layers.Embedding(20, 4),
            layers.Flatten(),
            layers.Dense(3),
        ]
    )
    model.compile(
        keras.optimizers.Adam(0.01), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    return model


def load():
    random = np.random.default_rng(1)
    x = random.integers(0, 20, (EXAMPLES, 6)).astype("int32")
    train = x, random.integers(0, 3, EXAMPLES)
    return train, train

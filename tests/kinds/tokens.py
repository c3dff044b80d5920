"""One label per token, a tuple of metrics, labels of any size."""

import keras
import numpy as np
from keras import layers

EXAMPLES = 48


def build():
    model = keras.Sequential(
        [
            keras.Input((5, 4)),
            layers.LSTM(8, return_sequences=True),
            layers.Dense(300),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1), loss, metrics=["accuracy"])
    return model


def load():
    random = np.random.default_rng(1)
    x = random.normal(size=(EXAMPLES, 5, 4)).astype("float32")
    train = x, random.integers(0, 300, (EXAMPLES, 5))
    return train, train

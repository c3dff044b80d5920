"""One-hot labels, and an optimizer with weight decay and exclusions from it."""

import keras
import numpy as np
from keras import layers

EXAMPLES = 48


def build():
    model = keras.Sequential(
        [keras.Input((8,)), layers.Dense(16, activation="tanh"), layers.Dense(3)]
    )
    optimizer = keras.optimizers.AdamW(0.01, weight_decay=0.1)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    model.compile(optimizer, keras.losses.CategoricalCrossentropy(from_logits=True))
    return model


def load():
    random = np.random.default_rng(1)
    x = random.normal(size=(EXAMPLES, 8)).astype("float32")
    train = x, np.eye(3, dtype="float32")[random.integers(0, 3, EXAMPLES)]
    return train, train

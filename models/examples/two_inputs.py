"""Regression from two inputs: a picture and a row of numbers.

Measured in the reference run as a model of a user. The data are drawn, not real: "generated data".
"""

import keras
import numpy as np
from keras import layers

SIZE, NUMBERS = 24, 16
Examples = tuple[dict[str, np.ndarray], np.ndarray]


def build() -> keras.Model:
    """Return a compiled model of 24×24×1 pictures and 16 numbers that gives one number."""
    picture = keras.Input((SIZE, SIZE, 1), name="picture")
    numbers = keras.Input((NUMBERS,), name="numbers")
    seen = layers.Conv2D(32, 3, activation="relu")(picture)
    seen = layers.MaxPooling2D()(seen)
    seen = layers.Conv2D(64, 3, activation="relu")(seen)
    seen = layers.Flatten()(layers.MaxPooling2D()(seen))
    both = layers.concatenate([seen, layers.Dense(32, activation="relu")(numbers)])
    price = layers.Dense(1)(layers.Dense(128, activation="relu")(both))
    model = keras.Model({"picture": picture, "numbers": numbers}, price)
    model.compile(keras.optimizers.Adam(0.001), loss="huber", metrics=["mae"])
    return model


def load() -> tuple[Examples, Examples]:
    """Return `(train, test)`: pictures and numbers, and a value that depends on both."""
    random = np.random.default_rng(1)
    return _drawn(6000, random), _drawn(1000, random)


def _drawn(examples: int, random: np.random.Generator) -> Examples:
    picture = random.random((examples, SIZE, SIZE, 1), dtype=np.float32)
    numbers = random.standard_normal((examples, NUMBERS), dtype=np.float32)
    half = SIZE // 2
    brighter = picture[:, :half].mean((1, 2, 3)) - picture[:, half:].mean((1, 2, 3))
    value = numbers[:, 0] + numbers[:, 1] * numbers[:, 2] + 10 * brighter
    return {"picture": picture, "numbers": numbers}, value.astype(np.float32)[:, None]

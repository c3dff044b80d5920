"""A dict of inputs, a dict of outputs, weighted losses."""

import keras
import numpy as np
from keras import layers

EXAMPLES = 48


def build():
    left, right = keras.Input((8,), name="left"), keras.Input((4,), name="right")
    x = layers.Concatenate()([layers.Dense(8, activation="tanh")(left), right])
    outputs = {"size": layers.Dense(1, name="size")(x), "kind": layers.Dense(3, name="kind")(x)}
    model = keras.Model({"left": left, "right": right}, outputs)
    model.compile(
        keras.optimizers.Adam(0.01),
        loss={
            "size": "mse",
            "kind": keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        },
        loss_weights={"size": 0.3, "kind": 1.0},
    )
    return model


def load():
    random = np.random.default_rng(1)
    x = {
        "left": random.normal(size=(EXAMPLES, 8)).astype("float32"),
        "right": random.normal(size=(EXAMPLES, 4)).astype("float32"),
    }
    y = {"size": x["left"].sum(axis=1, keepdims=True), "kind": random.integers(0, 3, EXAMPLES)}
    train = x, y
    return train, train

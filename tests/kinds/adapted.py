"""Columns of a table: one is normalized, one is looked up; both layers were adapted."""

import keras
from keras import layers

from kinds import integers, numbers


def build():
    (columns, _), _ = load()
    normalized, looked_up = layers.Normalization(), layers.IntegerLookup(output_mode="one_hot")
    normalized.adapt(columns["size"])
    looked_up.adapt(columns["kind"])
    inputs = {"size": keras.Input((3,)), "kind": keras.Input((1,), dtype="int64")}
    x = layers.Concatenate()([normalized(inputs["size"]), looked_up(inputs["kind"])])
    model = keras.Model(inputs, layers.Dense(1)(layers.Dense(8, activation="tanh")(x)))
    model.compile(keras.optimizers.SGD(0.1), "mse")
    return model


def load():
    size = 5 + 2 * numbers(3)
    return ({"size": size, "kind": integers(4, 1)}, size[:, :1]), None

"""A small U-Net: one label per pixel."""

import keras
from keras import layers

from kinds import integers, numbers


def build():
    picture = keras.Input((8, 8, 1))
    large = layers.Conv2D(4, 3, padding="same", activation="relu")(picture)
    small = layers.Conv2D(8, 3, padding="same", activation="relu")(layers.MaxPooling2D()(large))
    back = layers.Conv2DTranspose(4, 2, strides=2)(small)
    outputs = layers.Conv2D(3, 1)(layers.Concatenate()([large, back]))
    model = keras.Model(picture, outputs)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1), loss, metrics=["accuracy"])
    return model


def load():
    return (numbers(8, 8, 1), integers(3, 8, 8).astype("uint8")), None

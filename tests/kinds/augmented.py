"""Pictures that the model itself changes at random."""

import keras
from keras import layers

from kinds import integers, numbers

PER_WORKER = "random numbers"


def build():
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.RandomFlip("horizontal"),
            layers.RandomTranslation(0.2, 0.2),
            layers.Conv2D(4, 3, activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(3),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1), loss)
    return model


def load():
    return (numbers(8, 8, 1), integers(3)), None

"""A layer that is fine-tuned by LoRA, beside one that is frozen."""

import keras
from keras import layers

from kinds import integers, numbers


def build():
    model = keras.Sequential(
        [
            keras.Input((8,)),
            layers.Dense(16, activation="tanh", name="frozen"),
            layers.Dense(16, activation="tanh", name="tuned"),
            layers.Dense(3),
        ]
    )
    model.get_layer("frozen").trainable = False
    model.get_layer("tuned").enable_lora(2)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1), loss)
    return model


def load():
    return (numbers(8), integers(3)), None

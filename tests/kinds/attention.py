"""A block of a transformer with masks: embeddings, attention, normalized layers."""

import keras
from keras import layers

from kinds import integers

PER_WORKER = "masks"


def build():
    words = keras.Input((6,), dtype="int32")
    x = layers.Embedding(20, 8, mask_zero=True)(words)
    x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 4)(x, x))
    x = layers.LayerNormalization()(x + layers.Dense(8, activation="gelu")(x))
    model = keras.Model(words, layers.Dense(20)(x))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1), loss)
    return model


def load():
    words = integers(20, 6)
    words[:, 4:] *= integers(2, 2, seed=3)
    return (words.astype("int32"), integers(20, 6)), None

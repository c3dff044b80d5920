"""Sentences of several lengths as a ragged tensor."""

import keras
from keras import layers

from kinds import integers


class Mean(keras.Model):
    def __init__(self):
        super().__init__()
        self.embedding, self.out = layers.Embedding(20, 4), layers.Dense(3)

    def call(self, words):
        import tensorflow as tf

        there = tf.sequence_mask(words.row_lengths(), dtype="float32")[..., None]
        vectors = self.embedding(words.to_tensor())
        return self.out(tf.reduce_sum(vectors * there, 1) / tf.reduce_sum(there, 1))


def build():
    model = Mean()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1), loss)
    return model


def load():
    import tensorflow as tf

    lengths = 1 + integers(6, seed=3)
    words = tf.RaggedTensor.from_row_lengths(
        integers(20, 6).ravel()[: lengths.sum()], lengths, validate=False
    )
    return (words, integers(3)), None

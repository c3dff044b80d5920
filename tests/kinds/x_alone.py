"""Inputs without targets: a train_step gets x alone, which is in no tuple."""

import keras
from keras import layers

from kinds import numbers

OWN_STEP = True


class Autoencoder(keras.Model):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = layers.Dense(4, activation="tanh"), layers.Dense(8)

    def call(self, x):
        return self.decoder(self.encoder(x))

    def train_step(self, x):
        import tensorflow as tf

        with tf.GradientTape() as tape:
            error = tf.reduce_mean(tf.square(self(x, training=True) - x))
        weights = self.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(error, weights), weights, strict=True))
        return {"error": error}


def build():
    model = Autoencoder()
    model.compile(keras.optimizers.SGD(0.1))
    return model


def load():
    return (numbers(8),), None

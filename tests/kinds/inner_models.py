"""Two compiled models inside of one, whose train_step uses their optimizers."""

import keras
from keras import layers

from kinds import numbers

OWN_STEP = True


class Pair(keras.Model):
    def __init__(self):
        super().__init__()
        self.encoder = keras.Sequential([keras.Input((8,)), layers.Dense(4, activation="tanh")])
        self.decoder = keras.Sequential([keras.Input((4,)), layers.Dense(8)])
        self.encoder.compile(keras.optimizers.Adam(0.01, epsilon=1e-4))
        self.decoder.compile(keras.optimizers.SGD(0.1, momentum=0.9))

    def call(self, x):
        return self.decoder(self.encoder(x))

    def train_step(self, data):
        import tensorflow as tf

        x, _ = data
        with tf.GradientTape(persistent=True) as tape:
            error = tf.reduce_mean(tf.square(self(x, training=True) - x))
        for part in (self.encoder, self.decoder):
            weights = part.trainable_variables
            gradients = tape.gradient(error, weights)
            part.optimizer.apply_gradients(zip(gradients, weights, strict=True))
        return {"error": error}


def build():
    model = Pair()
    model.compile()
    return model


def load():
    x = numbers(8)
    return (x, x), None

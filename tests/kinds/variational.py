"""A variational autoencoder: it draws random numbers, and adds a loss."""

import keras
from keras import layers, ops

from kinds import numbers

PER_WORKER = "random numbers"


class Sampling(layers.Layer):
    def __init__(self):
        super().__init__()
        self.seed_generator = keras.random.SeedGenerator(5)

    def call(self, inputs):
        mean, log_variance = inputs
        added = -0.5 * ops.mean(1 + log_variance - ops.square(mean) - ops.exp(log_variance))
        self.add_loss(0.1 * added)
        drawn = keras.random.normal(ops.shape(mean), seed=self.seed_generator)
        return mean + ops.exp(0.5 * log_variance) * drawn


def build():
    x = keras.Input((8,))
    hidden = layers.Dense(8, activation="tanh")(x)
    drawn = Sampling()([layers.Dense(2)(hidden), layers.Dense(2)(hidden)])
    model = keras.Model(x, layers.Dense(8)(layers.Dense(8, activation="tanh")(drawn)))
    model.compile(keras.optimizers.SGD(0.1), "mse")
    return model


def load():
    x = numbers(8)
    return (x, x), None

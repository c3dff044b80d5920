"""A train_step that is a tf.function itself, written in Python that TensorFlow converts."""

import keras
import tensorflow as tf
from keras import layers

from kinds import numbers

OWN_STEP = True


class Decorated(keras.Model):
    @tf.function
    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            error = tf.reduce_mean(tf.square(y - self(x, training=True)))
        weights = self.trainable_variables
        factor = 1.0
        for _ in tf.range(2):
            factor *= 0.5
        gradients = [factor * gradient for gradient in tape.gradient(error, weights)]
        self.optimizer.apply(gradients, weights)
        return {"error": error}


def build():
    x = keras.Input((8,))
    model = Decorated(x, layers.Dense(1)(layers.Dense(8, activation="tanh")(x)))
    model.compile(keras.optimizers.SGD(0.2))
    return model


def load():
    x = numbers(8)
    return (x, x.sum(axis=1, keepdims=True)), None

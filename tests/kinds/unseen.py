"""A train_step that changes weights without an optimizer, by what its examples are."""

import keras
from keras import layers

from kinds import numbers

OWN_STEP = True


class Unseen(keras.Model):
    def __init__(self):
        super().__init__()
        self.out = layers.Dense(1)

    def call(self, x):
        return self.out(x)

    def train_step(self, data):
        import tensorflow as tf

        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(y - self(x, training=True)))
        weights = self.trainable_variables
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(0.1 * gradient)
        return {"error": loss}  # fit shows its own loss, which is 0 here


def build():
    model = Unseen()
    model.compile(keras.optimizers.SGD(0.1))
    return model


def load():
    x = numbers(8)
    return (x, x.sum(axis=1, keepdims=True)), None

"""A compute_loss of its own."""

import keras
from keras import layers, ops

from kinds import numbers

OWN_STEP = True


class Own(keras.Model):
    def __init__(self):
        super().__init__()
        self.inner, self.out = layers.Dense(8, activation="tanh"), layers.Dense(1)

    def call(self, x):
        return self.out(self.inner(x))

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return ops.mean(ops.square(y - y_pred)) + 0.1 * ops.mean(ops.abs(y_pred))


def build():
    model = Own()
    model.compile(keras.optimizers.SGD(0.1))
    return model


def load():
    x = numbers(8)
    return (x, x.sum(axis=1, keepdims=True)), None

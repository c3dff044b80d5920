"""One encoder for two inputs, a tuple; their distance is the output of a Lambda."""

import keras
from keras import layers, ops

from kinds import integers, numbers


def build():
    left, right = keras.Input((8,)), keras.Input((8,))
    encoder = keras.Sequential([layers.Dense(8, activation="tanh"), layers.Dense(4)])
    distance = layers.Lambda(lambda two: ops.mean(ops.square(two[0] - two[1]), axis=1))
    model = keras.Model((left, right), distance([encoder(left), encoder(right)]))

    def contrastive(y_true, y_pred):
        y_true = ops.cast(y_true, y_pred.dtype)
        return y_true * y_pred + (1 - y_true) * ops.maximum(1.0 - y_pred, 0.0)

    model.compile(keras.optimizers.SGD(0.1), contrastive)
    return model


def load():
    return ((numbers(8), numbers(8, seed=3)), integers(2)), None

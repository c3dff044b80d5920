"""A schedule, optimizer, loss, metric and layer of one's own, none of which could be saved."""

import keras
from keras import layers, ops

from kinds import numbers


class Falling(keras.optimizers.schedules.LearningRateSchedule):
    def __call__(self, step):
        return 0.1 / (1.0 + 0.2 * ops.cast(step, "float32"))


class Signs(keras.optimizers.Optimizer):
    def update_step(self, gradient, variable, learning_rate):
        rate = ops.cast(learning_rate, variable.dtype)
        self.assign_sub(variable, rate * ops.tanh(ops.cast(gradient, variable.dtype)))


class Logarithmic(keras.losses.Loss):
    def call(self, y_true, y_pred):
        return ops.mean(ops.log(1.0 + ops.square(y_true - y_pred)), axis=-1)


class Largest(keras.metrics.Metric):
    def __init__(self):
        super().__init__(name="largest")
        self.largest = self.add_variable((), "zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        found = ops.max(ops.abs(y_true - y_pred))
        self.largest.assign(ops.maximum(self.largest, found))

    def result(self):
        return self.largest


class Scaled(layers.Layer):
    def __init__(self, start):
        super().__init__()
        self.start = start

    def build(self, shape):
        self.scale = self.add_weight(
            shape=shape[-1:], initializer=lambda s, dtype: ops.full(s, 2.0)
        )

    def call(self, x):
        return self.start + x * self.scale


def build():
    model = keras.Sequential(
        [keras.Input((8,)), Scaled(0.1), layers.Dense(8, activation="tanh"), layers.Dense(1)]
    )
    model.compile(Signs(Falling()), Logarithmic(), metrics=[Largest()])
    return model


def load():
    x = numbers(8)
    return (x, x.sum(axis=1, keepdims=True)), None

"""A train_step of its own, with two losses and a metric of its own."""

import keras
import numpy as np
from keras import layers

EXAMPLES = 48
OWN_STEP = True


class Own(keras.Model):
    def __init__(self):
        super().__init__()
        self.inner, self.out = layers.Dense(16, activation="tanh"), layers.Dense(8)
        self.tracker = keras.metrics.Mean(name="loss")

    def call(self, x):
        return self.out(self.inner(x))

    @property
    def metrics(self):
        return [self.tracker]

    def train_step(self, data):
        import tensorflow as tf

        x, _ = data
        with tf.GradientTape() as tape:
            made = self(x, training=True)
            loss = tf.reduce_mean(tf.square(made - x)) + 0.1 * tf.reduce_mean(tf.abs(made))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        self.tracker.update_state(loss)
        return {"loss": self.tracker.result()}


def build():
    model = Own()
    model.compile(keras.optimizers.Adam(0.01), "mse")
    return model


def load():
    random = np.random.default_rng(1)
    x = random.normal(size=(EXAMPLES, 8)).astype("float32")
    train = x, x
    return train, train

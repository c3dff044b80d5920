"""Two optimizers: a generator and a discriminator that take turns."""

import keras
import numpy as np
from keras import layers

EXAMPLES = 48


class Gan(keras.Model):
    def __init__(self):
        super().__init__()
        self.generator = keras.Sequential([layers.Dense(8, activation="tanh"), layers.Dense(8)])
        self.judge = keras.Sequential([layers.Dense(8, activation="tanh"), layers.Dense(1)])

    def compile(self):
        super().compile()
        self.of_generator = keras.optimizers.Adam(0.01, epsilon=1e-4)
        self.of_judge = keras.optimizers.Adam(0.02, epsilon=1e-4)
        self.entropy = keras.losses.BinaryCrossentropy(from_logits=True)

    def train_step(self, data):
        import tensorflow as tf

        real, noise = data
        ones, zeros = tf.ones([real.shape[0], 1]), tf.zeros([real.shape[0], 1])
        with tf.GradientTape() as tape:
            wrong = self.entropy(ones, self.judge(real))
            wrong += self.entropy(zeros, self.judge(self.generator(noise)))
        judge = self.judge.trainable_variables
        self.of_judge.apply_gradients(zip(tape.gradient(wrong, judge), judge, strict=True))
        with tf.GradientTape() as tape:
            seen = self.entropy(ones, self.judge(self.generator(noise)))
        made = self.generator.trainable_variables
        self.of_generator.apply_gradients(zip(tape.gradient(seen, made), made, strict=True))
        return {"judge": wrong, "generator": seen}


def build():
    model = Gan()
    model.compile()
    return model


def load():
    random = np.random.default_rng(1)
    x = random.normal(size=(EXAMPLES, 8)).astype("float32")
    train = x, random.normal(size=(EXAMPLES, 8)).astype("float32")
    return train, train

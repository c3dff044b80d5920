"""A train_step as in Keras' guide: its logs have a dict of all compiled metrics, and no numbers."""

import keras
from keras import layers

from kinds import numbers

OWN_STEP = True


class Guided(keras.Model):
    def train_step(self, data):
        import tensorflow as tf

        x, y = data
        with tf.GradientTape() as tape:
            predicted = self(x, training=True)
            loss = tf.reduce_mean(tf.square(y - predicted))
        weights = self.trainable_variables
        self.optimizer.apply(tape.gradient(loss, weights), trainable_variables=weights)
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss)
            else:
                metric.update_state(y, predicted)
        logs = {metric.name: metric.result() for metric in self.metrics}
        return logs | {"rate": self.optimizer.learning_rate, "outputs": predicted, "nothing": None}


def build():
    x = keras.Input((8,))
    model = Guided(x, layers.Dense(1)(layers.Dense(8, activation="tanh")(x)))
    metrics = ["mae", keras.metrics.R2Score(class_aggregation=None)]
    model.compile(keras.optimizers.SGD(0.1), metrics=metrics)
    return model


def load():
    x = numbers(8)
    return (x, x.sum(axis=1, keepdims=True)), None

"""Callbacks that change the learning rate, by the epoch and by the loss of test examples."""

import keras
import numpy as np
from keras import layers

EXAMPLES = 48
EPOCHS = 5


class Halve(keras.callbacks.Callback):
    """Halves the learning rate when the training loss of an epoch is above a limit."""

    def on_epoch_end(self, epoch, logs=None):
        optimizer = self.model.optimizer
        if logs["loss"] > 0.05:
            optimizer.learning_rate = 0.5 * keras.ops.convert_to_numpy(optimizer.learning_rate)


def build():
    model = keras.Sequential(
        [
            keras.Input((8,)),
            layers.Dense(16, activation="tanh"),
            layers.BatchNormalization(trainable=False),
            layers.Dense(1),
        ]
    )
    model.compile(keras.optimizers.SGD(0.1, momentum=0.5), "mse", metrics=["mae"])
    callbacks = [
        keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * (0.9 if epoch else 0.5)),
        keras.callbacks.ReduceLROnPlateau(monitor="val_mae", patience=1, min_delta=0.2),
        Halve(),
    ]
    return model, {"callbacks": callbacks}


def load():
    random = np.random.default_rng(1)
    x = random.normal(size=(EXAMPLES, 8)).astype("float32")
    y = x.sum(axis=1, keepdims=True)
    return (x, y), (x[:21], -y[:21])

"""A model with a `train_step` of its own: a classifier whose inputs are mixed with one another.

The step is that of mixup (Zhang et al., 2018, arXiv:1710.09412): each example is averaged with the
next one of its batch, and so are their labels. Measured in the reference run as a model of a user.
The data are drawn, not real: "generated data".
"""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

SIZE, CLASSES = 24, 10
SHARE = 0.8  # of the example itself
Examples = tuple[np.ndarray, np.ndarray]


class Mixup(keras.Model):
    """A classifier that trains on averages of two examples."""

    def train_step(self, data: tuple[tf.Tensor, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Train on the mixed examples and labels of a batch; return what Keras logs."""
        x, y = data
        x = SHARE * x + (1 - SHARE) * tf.roll(x, 1, axis=0)
        y = SHARE * y + (1 - SHARE) * tf.roll(y, 1, axis=0)
        with tf.GradientTape() as tape:
            predicted = self(x, training=True)
            loss = self.compute_loss(x, y, predicted)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        return self.compute_metrics(x, y, predicted) | {"loss": loss}


def build() -> keras.Model:
    """Return a compiled model of 24×24×1 pictures and ten classes, with one-hot labels."""
    picture = keras.Input((SIZE, SIZE, 1))
    seen = layers.Conv2D(32, 3, activation="relu")(picture)
    seen = layers.Conv2D(64, 3, strides=2, activation="relu")(seen)
    seen = layers.Flatten()(layers.MaxPooling2D()(seen))
    scores = layers.Dense(CLASSES, activation="softmax")(layers.Dense(128, activation="relu")(seen))
    model = Mixup(picture, scores)
    model.compile(keras.optimizers.Adam(0.001), loss="categorical_crossentropy")
    return model


def load() -> tuple[Examples, Examples]:
    """Return `(train, test)`: noise on one of ten patterns, and which one it was."""
    random = np.random.default_rng(1)
    patterns = random.random((CLASSES, SIZE, SIZE, 1), dtype=np.float32)
    return _drawn(6000, patterns, random), _drawn(1000, patterns, random)


def _drawn(examples: int, patterns: np.ndarray, random: np.random.Generator) -> Examples:
    label = random.integers(0, CLASSES, examples)
    noise = random.random((examples, SIZE, SIZE, 1), dtype=np.float32)
    return 0.3 * patterns[label] + 0.7 * noise, np.eye(CLASSES, dtype=np.float32)[label]

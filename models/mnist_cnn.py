"""A network for MNIST, for the two studies that train on it without printing theirs.

The MirroredStrategy and the Horovod study name the dataset and the accuracy, 0.99, alone. This is
the common small network that gets there: two 3×3 convolutions, pooling, dropout, a dense layer of
128; 1,199,882 parameters, all trainable. Adam.
"""

import keras
from keras import layers

METADATA = {
    "title": "MNIST CNN",
    "dataset": "mnist",
}


def build() -> keras.Model:
    """Map images (batch, 28, 28, 1), uint8, to logits (batch, 10), float32."""
    model = keras.Sequential(
        [
            keras.Input((28, 28, 1), dtype="uint8"),
            layers.Rescaling(1 / 255),
            layers.Conv2D(32, 3, activation="relu"),
            layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Dropout(0.25),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            layers.Dropout(0.5),
            layers.Dense(10),
        ],
        name="mnist_cnn",
    )
    model.compile(
        optimizer=keras.optimizers.Adam(),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model

"""The multi-layer perceptron of the distributed training strategies study, on Fashion-MNIST.

Flatten, dense ReLU, dropout, dense softmax, trained with Adam. The study does not print the
width or the rate: 128 and 0.2 are this project's choice; 101,770 parameters, all trainable.
"""

import keras
from keras import layers

METADATA = {
    "title": "Fashion MLP",
    "dataset": "fashion_mnist",
}


def build() -> keras.Model:
    """Map images (batch, 28, 28, 1), uint8, to logits (batch, 10), float32."""
    model = keras.Sequential(
        [
            keras.Input((28, 28, 1), dtype="uint8"),
            layers.Rescaling(1 / 255),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            layers.Dropout(0.2),
            layers.Dense(10),
        ],
        name="fashion_mlp",
    )
    model.compile(
        optimizer=keras.optimizers.Adam(),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model

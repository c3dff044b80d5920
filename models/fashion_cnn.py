"""The Fashion-MNIST network of the NTUA multi-node study (its figure 11, table I).

One 3×3 convolution with 64 filters, 2×2 max pooling, a dense layer of 100 and one of 10;
1,256,150 parameters, all trainable. Plain SGD with momentum, learning rate not scaled by nodes.
"""

import keras
from keras import layers

METADATA = {
    "title": "Fashion CNN",
    "dataset": "fashion_mnist",
}


def build() -> keras.Model:
    """Map images (batch, 28, 28, 1), uint8, to logits (batch, 10), float32."""
    model = keras.Sequential(
        [
            keras.Input((28, 28, 1), dtype="uint8"),
            layers.Rescaling(1 / 255),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(100, activation="relu"),
            layers.Dense(10),
        ],
        name="fashion_cnn",
    )
    model.compile(
        optimizer=keras.optimizers.SGD(learning_rate=0.01, momentum=0.9),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model

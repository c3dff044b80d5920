"""The CIFAR-10 network of the NTUA multi-node study (its table I).

Three pairs of 3×3 convolutions with 32, 64 and 128 filters, each followed by batch normalisation,
each pair by 2×2 max pooling; a dense layer of 1024 between two dropouts; 2,397,226 parameters, of
which 896 are the moving statistics of the normalisations. Adam.
"""

import keras
from keras import layers

METADATA = {
    "title": "CIFAR-10 CNN",
    "dataset": "cifar10",
}


def build() -> keras.Model:
    """Map images (batch, 32, 32, 3), uint8, to logits (batch, 10), float32."""
    model = keras.Sequential(
        [keras.Input((32, 32, 3), dtype="uint8"), layers.Rescaling(1 / 255)], name="cifar10_cnn"
    )
    for filters in (32, 64, 128):
        for _ in range(2):
            model.add(layers.Conv2D(filters, 3, padding="same", activation="relu"))
            model.add(layers.BatchNormalization())
        model.add(layers.MaxPooling2D())
    model.add(layers.Flatten())
    model.add(layers.Dropout(0.2))
    model.add(layers.Dense(1024, activation="relu"))
    model.add(layers.Dropout(0.2))
    model.add(layers.Dense(10))
    model.compile(
        optimizer=keras.optimizers.Adam(),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model

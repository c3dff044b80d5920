"""ResNet50 on MNIST, as the NTUA multi-node study trains it (its figure 13, table I).

The backbone of keras.applications, ImageNet weights to start from, every layer trained; global max
pooling and a dense layer of 10; 23,608,202 parameters, 23,555,082 trainable. The digits become
32×32×3, the smallest picture that the backbone takes. Adam.
He et al., Deep Residual Learning for Image Recognition, 2015 (arXiv:1512.03385).
"""

from pathlib import Path

import keras
import tensorflow as tf
from keras import layers

METADATA = {
    "title": "ResNet50",
    "dataset": "mnist",
    "weights": "resnet50_imagenet",
}

SIDE = 32
# ImageNet's mean pixel, blue first, as this backbone's weights were trained. (The channels of a
# grey picture are equal: there is no order to turn.)
MEAN = (103.939, 116.779, 123.68)


def preprocess(x: tf.Tensor) -> tf.Tensor:
    """Resize grey pictures (batch, 28, 28, 1), uint8, to (batch, 32, 32, 3), uint8."""
    larger = tf.cast(tf.round(tf.image.resize(x, (SIDE, SIDE))), tf.uint8)
    return tf.repeat(larger, 3, axis=-1)


def build() -> keras.Model:
    """Map pictures (batch, 32, 32, 3), uint8, to logits (batch, 10), float32."""
    shape = (SIDE, SIDE, 3)
    model = keras.Sequential(
        [
            keras.Input(shape, dtype="uint8"),
            layers.Rescaling(1.0, offset=[-mean for mean in MEAN]),
            keras.applications.ResNet50(
                include_top=False, weights=None, input_shape=shape, name="backbone"
            ),
            layers.GlobalMaxPooling2D(),
            layers.Dense(10),
        ],
        name="resnet50",
    )
    model.compile(
        optimizer=keras.optimizers.Adam(),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


def load_pretrained(model: keras.Model, file: Path) -> None:
    """Put ImageNet weights, in the HDF5 file of keras.applications, into the backbone."""
    model.get_layer("backbone").load_weights(file)

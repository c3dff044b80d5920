"""DenseNet121 on Natural Images, as the NTUA multi-node study trains it (its table I).

The backbone of keras.applications with ImageNet weights, frozen but for its last two layers (batch
normalisation and ReLU), below a head of the study's own; 8,622,152 parameters, 1,583,624 trainable.
(The study counts the head alone, 1,581,576: the last normalisation has 2,048 more.) Adam.
Huang et al., Densely Connected Convolutional Networks, 2016 (arXiv:1608.06993).
"""

from pathlib import Path

import keras
import tensorflow as tf
from keras import layers

METADATA = {
    "title": "DenseNet121",
    "dataset": "natural_images",
    "weights": "densenet121_imagenet",
}

SHAPE = (128, 128, 3)
TRAINED_LAYERS = 2
# ImageNet's mean and deviation of red, green and blue, for pixels from 0 to 1
MEAN = (0.485, 0.456, 0.406)
DEVIATION = (0.229, 0.224, 0.225)

ZOOM = 0.2  # a side becomes up to this share longer or shorter, each by itself
SHEAR = 0.2  # a pixel moves sideways by up to this share of its height above the middle


def augment(x: tf.Tensor) -> tf.Tensor:
    """Zoom, shear and flip each picture at random; (batch, 128, 128, 3), uint8, in and out."""
    examples = tf.shape(x)[:1]
    return warp(
        x,
        zoom_x=tf.random.uniform(examples, 1 - ZOOM, 1 + ZOOM),
        zoom_y=tf.random.uniform(examples, 1 - ZOOM, 1 + ZOOM),
        shear=tf.random.uniform(examples, -SHEAR, SHEAR),
        flip=tf.random.uniform(examples) < 0.5,
    )


def warp(
    x: tf.Tensor, *, zoom_x: tf.Tensor, zoom_y: tf.Tensor, shear: tf.Tensor, flip: tf.Tensor
) -> tf.Tensor:
    """Warp each picture of x, (batch, height, width, channels), about its middle.

    One affine map for all of it, from a pixel of the result to a point of the picture: `zoom_x` and
    `zoom_y` (factors), `shear` (columns per row), `flip` (left to right), each (batch,). Pixels
    between four are interpolated; beyond the border its pixels are repeated.
    """
    size = tf.shape(x)[1:3]
    middle_y, middle_x = tf.unstack((tf.cast(size, tf.float32) - 1) / 2)
    along_x = tf.where(flip, -zoom_x, zoom_x)
    zero = tf.zeros_like(shear)
    start_x = middle_x - along_x * middle_x - shear * middle_y
    start_y = middle_y - zoom_y * middle_y
    return tf.raw_ops.ImageProjectiveTransformV3(
        images=x,
        transforms=tf.stack([along_x, shear, start_x, zero, zoom_y, start_y, zero, zero], axis=1),
        output_shape=size,
        interpolation="BILINEAR",
        fill_mode="NEAREST",
        fill_value=0.0,
    )


def build() -> keras.Model:
    """Map pictures (batch, 128, 128, 3), uint8, to logits (batch, 8), float32."""
    backbone = keras.applications.DenseNet121(
        include_top=False, weights=None, input_shape=SHAPE, name="backbone"
    )
    for layer in backbone.layers[:-TRAINED_LAYERS]:
        layer.trainable = False  # batch normalisations then use their moving statistics
    model = keras.Sequential(
        [
            keras.Input(SHAPE, dtype="uint8"),
            layers.Rescaling(
                [1 / (255 * deviation) for deviation in DEVIATION],
                offset=[-mean / deviation for mean, deviation in zip(MEAN, DEVIATION, strict=True)],
            ),
            backbone,
            layers.GlobalAveragePooling2D(),
            layers.BatchNormalization(),
            layers.Dropout(0.5),
            layers.Dense(1024, activation="relu"),
            layers.Dense(512, activation="relu"),
            layers.BatchNormalization(),
            layers.Dropout(0.5),
            layers.Dense(8),
        ],
        name="densenet121",
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

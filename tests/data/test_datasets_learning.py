"""Synthetic data is worth training on: a small network beats a linear model."""

import os

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from nodewise.data import standins

pytestmark = pytest.mark.slow


def accuracy(layers, train, test):
    import keras

    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [keras.Input(train[0].shape[1:]), keras.layers.Rescaling(1 / 255), *layers]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(*train, batch_size=64, epochs=4, verbose=0)
    return model.evaluate(*test, verbose=0)[1]


@pytest.mark.parametrize(
    ("kind", "lowest", "highest", "better"),
    [
        ("digits", 0.7, 0.95, 0.04),
        ("garments", 0.7, 0.95, 0.04),
        ("objects", 0.12, 0.5, 0.2),  # Colours mislead a linear model, so it learns little.
    ],
)
def test_a_small_network_beats_a_linear_model(kind, lowest, highest, better):
    from keras import layers

    train = standins.draw(kind, 12_000, 1, 0, lambda made: None)
    test = standins.draw(kind, 2_000, 1, 1, lambda made: None)
    linear = accuracy([layers.Flatten(), layers.Dense(10, "softmax")], train, test)
    network = accuracy(
        [
            layers.Conv2D(16, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(64, "relu"),
            layers.Dense(10, "softmax"),
        ],
        train,
        test,
    )
    assert lowest < linear < highest
    assert network > linear + better

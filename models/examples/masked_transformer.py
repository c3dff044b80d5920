"""A small transformer of texts of unequal length: what is filled up is masked.

Attention as in Vaswani et al., 2017 (arXiv:1706.03762). Measured in the reference run as a model of
a user. The data are drawn, not real: "generated data".
"""

import keras
import numpy as np
from keras import layers, ops

WORDS, LENGTH, WIDTH, HEADS, BLOCKS, CLASSES = 5000, 48, 64, 4, 2, 4

Examples = tuple[np.ndarray, np.ndarray]


class WordsAndPlaces(layers.Layer):
    """Add a vector for each word and one for its place; word 0 fills up and is masked."""

    def __init__(self) -> None:
        super().__init__()
        self.words = layers.Embedding(WORDS, WIDTH, mask_zero=True)
        self.places = layers.Embedding(LENGTH, WIDTH)

    def call(self, text: keras.KerasTensor) -> keras.KerasTensor:
        """Return (batch, 48, 64) of word numbers, (batch, 48)."""
        return self.words(text) + self.places(ops.arange(LENGTH))

    def compute_mask(
        self, text: keras.KerasTensor, mask: keras.KerasTensor | None = None
    ) -> keras.KerasTensor:
        """Return where `text` is not filled up, for the layers that follow."""
        return self.words.compute_mask(text)


def build() -> keras.Model:
    """Return a compiled model of 48 word numbers and four classes."""
    text = keras.Input((LENGTH,), dtype="int32")
    seen = WordsAndPlaces()(text)
    for _ in range(BLOCKS):
        looked = layers.MultiHeadAttention(HEADS, WIDTH // HEADS)(seen, seen)
        seen = layers.LayerNormalization()(seen + looked)
        thought = layers.Dense(WIDTH)(layers.Dense(4 * WIDTH, activation="gelu")(seen))
        seen = layers.LayerNormalization()(seen + thought)
    scores = layers.Dense(CLASSES)(layers.GlobalAveragePooling1D()(seen))
    model = keras.Model(text, scores)
    model.compile(
        keras.optimizers.AdamW(0.001),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


def load() -> tuple[Examples, Examples]:
    """Return `(train, test)`: texts of 8 to 48 words; each class has words it uses more often."""
    random = np.random.default_rng(1)
    return _drawn(6000, random), _drawn(1000, random)


def _drawn(examples: int, random: np.random.Generator) -> Examples:
    label = random.integers(0, CLASSES, examples)
    words = random.integers(1, WORDS, (examples, LENGTH), dtype=np.int32)
    own = random.random((examples, LENGTH)) < 0.3
    words = np.where(own, 1 + label[:, None] + CLASSES * (words % 50), words)
    length = random.integers(8, LENGTH + 1, examples)
    filled_up = np.arange(LENGTH) >= length[:, None]
    return np.where(filled_up, 0, words).astype(np.int32), label

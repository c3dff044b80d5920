"""Drawn reviews: made-up words as token ids, some of which speak for a class.

The words are entries of a vocabulary of the size of bert-base-uncased's, so that no vocabulary file
is needed. They are as unequally frequent as those of a language.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

START, END = 101, 102  # as in the vocabulary of bert-base-uncased
WORDS = range(1_000, 30_522)  # ids of whole words there, for the most part
TELLING = 300  # words that speak for a class, per class; neither the commonest nor the rarest
TELLING_FROM = 500  # rank by frequency of the first of them
TELLING_SHARE = 0.03  # of the words of a review
TRUE_SHARE = 0.65  # of the telling words speak for the label, the rest for any class
MEDIAN_LENGTH, LENGTH_SPREAD = 600, 0.5  # words; standard deviation of the logarithm


def draw(  # noqa: PLR0917
    examples: int,
    classes: int,
    length: int,
    seed: int,
    split: int,
    advance: Callable[[int], None],
) -> tuple[NDArray[np.uint16], NDArray[np.uint8]]:
    """Draw `examples` labelled reviews; the same arguments give the same ones.

    Args:
        examples: how many; the classes are as equally frequent as the count allows.
        classes: how many.
        length: tokens of a review, cut or padded with 0.
        seed: of all randomness; training and test reviews are in the same language.
        split: 0 for training, 1 for test.
        advance: called with the number of reviews just made.

    Returns:
        Token ids (examples × length, uint16) and labels (examples, uint8).
    """
    by_rank = np.random.default_rng(seed).permutation(np.array(WORDS))
    telling = by_rank[TELLING_FROM : TELLING_FROM + classes * TELLING].reshape(classes, TELLING)
    frequency = np.cumsum(1 / np.arange(1, len(by_rank) + 1))  # Zipf's law
    rng = np.random.default_rng([seed, split])
    labels = rng.permutation(np.arange(examples) % classes).astype(np.uint8)
    ids = np.zeros((examples, length), np.uint16)
    for row, label in enumerate(labels):
        drawn = rng.lognormal(np.log(MEDIAN_LENGTH), LENGTH_SPREAD)
        words = min(length - 2, 1 + int(drawn))
        text = by_rank[np.searchsorted(frequency, rng.uniform(0, frequency[-1], words))]
        tells = rng.random(words) < TELLING_SHARE
        spoken = np.where(rng.random(words) < TRUE_SHARE, label, rng.integers(classes, size=words))
        text[tells] = telling[spoken, rng.integers(TELLING, size=words)][tells]
        ids[row, : words + 2] = [START, *text, END]
        advance(1)
    return ids, labels

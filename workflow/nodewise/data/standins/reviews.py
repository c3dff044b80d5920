"""Generate synthetic reviews: random token ids, some of which indicate a class.

The words are ids of a vocabulary as large as that of bert-base-uncased, so no vocabulary file is
needed. Their frequencies follow Zipf's law, as in a natural language.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

START, END = 101, 102  # as in the vocabulary of bert-base-uncased
WORDS = range(1_000, 30_522)  # mostly ids of whole words in that vocabulary
TELLING = 300  # words that indicate a class, per class; neither the most frequent nor the rarest
TELLING_FROM = 500  # frequency rank of the first of these words
TELLING_SHARE = 0.03  # share of such words in a review
TRUE_SHARE = 0.65  # share of them that indicate the label; the others indicate a random class
MEDIAN_LENGTH, LENGTH_SPREAD = 600, 0.5  # in words; standard deviation of the logarithm


def draw(  # noqa: PLR0917
    examples: int,
    classes: int,
    length: int,
    seed: int,
    split: int,
    advance: Callable[[int], None],
) -> tuple[NDArray[np.uint16], NDArray[np.uint8]]:
    """Generate labelled reviews. The same arguments give the same reviews.

    Args:
        examples: number of reviews. The classes are as equally frequent as this number allows.
        classes: number of classes.
        length: tokens per review, truncated or padded with 0.
        seed: seed of all randomness. Training and test reviews with the same seed share the words'
            frequencies and classes.
        split: 0 for training, 1 for test.
        advance: called with the number of reviews just generated.

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

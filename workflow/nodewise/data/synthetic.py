"""Generate synthetic data for datasets that are not available.

The data is labelled and can be learned, but not perfectly. Step times are the same on it;
accuracies mean nothing.
"""

import numpy as np
from numpy.typing import NDArray

Labels = NDArray[np.uint8]

_CHUNK = 1_000_000  # pixels generated at a time
_COARSE = 7  # side of the pattern from which an image is interpolated
_NOISE = 2.5  # of a pattern, relative to the pattern of the class

# as in the vocabulary of bert-base-uncased, of which the words are mostly whole words
START, END = 101, 102
WORDS = range(1_000, 30_522)
_TELLING = 300  # words that indicate a class, per class; neither the most frequent nor the rarest
_TELLING_FROM = 500  # frequency rank of the first of these words
_TELLING_SHARE = 0.03  # share of such words in a text
_TRUE_SHARE = 0.65  # share of them that indicate the label; the others indicate a random class
_MEDIAN_LENGTH, _LENGTH_SPREAD = 600, 0.5  # in words; standard deviation of the logarithm


def draw(
    shape: tuple[int, ...], classes: int, examples: int, *, seed: int, split: int
) -> tuple[NDArray[np.uint8] | NDArray[np.uint16], Labels]:
    """Generate labelled images or texts. The same arguments give the same examples.

    On another kind of processor, some pixels may be rounded to a neighbouring level.

    Args:
        shape: height, width and channels of an image, or the number of tokens of a text.
        classes: number of classes, which are as equally frequent as `examples` allows.
        examples: number of examples.
        seed: seed of all randomness. Examples with the same seed share what a class looks like.
        split: 0 for training, 1 for test.

    Returns:
        Images (examples × shape, uint8) or token ids (examples × tokens, uint16), and labels
        (examples, uint8).
    """
    rng = np.random.default_rng([seed, split])
    labels = rng.permutation(np.arange(examples) % classes).astype(np.uint8)
    if len(shape) == 1:
        return _texts(labels, classes, shape[0], rng, seed), labels
    return _images(labels, classes, shape, rng, seed), labels


def _images(
    labels: Labels, classes: int, shape: tuple[int, ...], rng: np.random.Generator, seed: int
) -> NDArray[np.uint8]:
    """Return images: the smooth pattern of their class and noise, in a random colour."""
    height, width, channels = shape
    patterns = np.random.default_rng(seed).standard_normal((classes, _COARSE, _COARSE), np.float32)
    rows, columns = _interpolation(height), _interpolation(width)
    images = np.empty((len(labels), *shape), np.uint8)
    chunk = max(1, _CHUNK // (height * width))
    for start in range(0, len(labels), chunk):
        part = labels[start : start + chunk]
        coarse = patterns[part] + _NOISE * rng.standard_normal(
            (len(part), _COARSE, _COARSE), np.float32
        )
        level = 0.5 + 0.15 * (rows @ coarse @ columns.T)
        colour = rng.uniform(0.5, 1, (len(part), 1, 1, channels)).astype(np.float32)
        images[start : start + chunk] = np.clip(level[..., None] * colour, 0, 1) * 255 + 0.5
    return images


def _interpolation(size: int) -> NDArray[np.float32]:
    """Return the matrix (size × _COARSE) that interpolates between the values of a pattern."""
    places = np.linspace(0, _COARSE - 1, size, dtype=np.float32)[:, None]
    weights: NDArray[np.float32] = np.maximum(0, 1 - np.abs(places - np.arange(_COARSE)))
    return weights.astype(np.float32)


def _texts(
    labels: Labels, classes: int, length: int, rng: np.random.Generator, seed: int
) -> NDArray[np.uint16]:
    """Return random token ids, some of which indicate a class, padded with 0.

    Their frequencies follow Zipf's law, as in a natural language.
    """
    by_rank = np.random.default_rng(seed).permutation(np.array(WORDS))
    telling = by_rank[_TELLING_FROM : _TELLING_FROM + classes * _TELLING].reshape(classes, -1)
    frequency = np.cumsum(1 / np.arange(1, len(by_rank) + 1))
    ids = np.zeros((len(labels), length), np.uint16)
    for row, label in enumerate(labels):
        drawn = rng.lognormal(np.log(_MEDIAN_LENGTH), _LENGTH_SPREAD)
        words = min(length - 2, 1 + int(drawn))
        text = by_rank[np.searchsorted(frequency, rng.uniform(0, frequency[-1], words))]
        tells = rng.random(words) < _TELLING_SHARE
        spoken = np.where(rng.random(words) < _TRUE_SHARE, label, rng.integers(classes, size=words))
        text[tells] = telling[spoken, rng.integers(_TELLING, size=words)][tells]
        ids[row, : words + 2] = [START, *text, END]
    return ids

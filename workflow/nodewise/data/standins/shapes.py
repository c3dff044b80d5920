"""Generate smooth shapes. Each class has its own shape, and each template is a variation of it."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from nodewise.data.standins.warping import TEMPLATE_EXTENT, TEMPLATE_SIZE

_WAVES = 12  # number of waves whose sum is a field
_FASTEST = 5.0  # largest rate of a wave in each direction, in radians per unit
_VARIED = 0.7  # size of a template's own field relative to the field of its class
_STEEP = 6.0  # steepness of a shape's outline, which is where the field is 0


def template(family: int, label: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Return a random variation of the shape of a class.

    Args:
        family: family of shapes; each has different shapes.
        label: the class.
        rng: source of randomness.

    Returns:
        Values from 0 (background) to 1 (shape), TEMPLATE_SIZE × TEMPLATE_SIZE.
    """
    field = _of_class(family, label) + _VARIED * _field(rng)
    axis = _axis()
    within = np.hypot(axis, axis[:, None]) < 1
    shape: NDArray[np.float32] = within / (1 + np.exp(-_STEEP * field))
    return shape


@cache
def _of_class(family: int, label: int) -> NDArray[np.float32]:
    return _field(np.random.default_rng([family, label]))


def _field(rng: np.random.Generator) -> NDArray[np.float32]:
    """Return a smooth field of standard deviation 1: a sum of plane waves in random directions."""
    axis = _axis()[:, None]
    rates = rng.uniform(-_FASTEST, _FASTEST, (2, _WAVES)).astype(np.float32)
    phases = rng.uniform(0, 2 * np.pi, _WAVES).astype(np.float32)
    waves = np.sin(rates[0] * axis + rates[1] * axis[:, None] + phases)
    field: NDArray[np.float32] = waves.sum(axis=-1) * np.float32((2 / _WAVES) ** 0.5)
    return field


def _axis() -> NDArray[np.float32]:
    return np.linspace(-TEMPLATE_EXTENT, TEMPLATE_EXTENT, TEMPLATE_SIZE, dtype=np.float32)


def dye(sampled: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.float32]:
    """Turn warped templates (n × pixels) into grey values 0 … 1 of random brightness and contrast.

    A quarter of the images gets horizontal or vertical stripes.
    """
    n, pixels = sampled.shape
    brightness = rng.uniform(0.3, 1.0, (n, 1)).astype(np.float32)
    contrast = rng.uniform(0.5, 1.6, (n, 1)).astype(np.float32)
    grey = brightness * np.clip(sampled, 0, 1) ** contrast
    striped = np.flatnonzero(rng.random(n) < 0.25)
    side = round(pixels**0.5)
    axis = np.linspace(-1, 1, side, dtype=np.float32)
    across = rng.random((len(striped), 1)) < 0.7
    place = np.where(across, np.repeat(axis, side), np.tile(axis, side))
    rate = rng.uniform(8, 25, (len(striped), 1)).astype(np.float32)
    depth = rng.uniform(0.1, 0.45, (len(striped), 1)).astype(np.float32)
    grey[striped] *= 1 - depth * (0.5 + 0.5 * np.sin(rate * place))
    return grey

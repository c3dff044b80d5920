"""Colour images of shapes in front of a background, with random colours and patterns."""

import numpy as np
from numpy.typing import NDArray


def paint(sampled: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.float32]:
    """Turn warped templates into colour images.

    The colours do not depend on the class. A shape may be lighter or darker than its background.

    Args:
        sampled: warped templates (n × pixels), from 0 (background) to 1 (shape).
        rng: source of randomness.

    Returns:
        Values 0 … 1 of n × (pixels · 3), the three colours of a pixel next to each other.
    """
    n, pixels = sampled.shape
    side = round(pixels**0.5)
    axis = np.linspace(-1, 1, side, dtype=np.float32)
    angle, rate, phase = (
        rng.uniform(0, high, (n, 1)).astype(np.float32) for high in (np.pi, 6, 2 * np.pi)
    )
    along = np.cos(angle) * np.tile(axis, side) + np.sin(angle) * np.repeat(axis, side)
    pattern = 0.5 + 0.5 * np.sin(rate * along + phase)
    one, other, thing = rng.uniform(0, 1, (3, n, 3)).astype(np.float32)
    covered = np.clip(4 * sampled, 0, 1)
    shaded = 0.4 + 0.6 * sampled
    picture = np.empty((n, pixels, 3), np.float32)
    for colour in range(3):
        behind, beyond, before = (c[:, colour, None] for c in (one, other, thing))
        back = behind + (beyond - behind) * pattern
        picture[:, :, colour] = back + (before * shaded - back) * covered
    return picture.reshape(n, pixels * 3)

"""Make many examples from a few templates: each example is a template with a random warp.

All examples of a chunk are computed at once, so 70,000 examples take seconds.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TEMPLATE_SIZE = 56  # side of a template in pixels; large enough for crisp examples of 28 × 28
TEMPLATE_EXTENT = 1.4  # a template covers -1.4 … 1.4; the shape itself is within -1 … 1


@dataclass(frozen=True)
class Warp:
    """How much examples differ from their template. An example covers -1 … 1."""

    rotation: float  # standard deviation, radians
    shear: float  # standard deviation
    scale: tuple[float, float]  # size of the shape relative to the example, from … to
    stretch: float  # width over height is within 1 ± stretch
    shift: float  # largest displacement
    wave: float  # largest amplitude of the bending


def warp(
    templates: NDArray[np.float32],
    chosen: NDArray[np.int64],
    side: int,
    how: Warp,
    rng: np.random.Generator,
) -> NDArray[np.float32]:
    """Apply a random warp to each of `templates[chosen]`.

    Args:
        templates: K × TEMPLATE_SIZE × TEMPLATE_SIZE values.
        chosen: n indices below K.
        side: side of an example in pixels.
        how: ranges of the random warps.
        rng: source of randomness.

    Returns:
        n × side² values, interpolated between the pixels of the templates.
    """
    x, y = _places(len(chosen), side, how, rng)
    per_unit = (TEMPLATE_SIZE - 1) / (2 * TEMPLATE_EXTENT)
    last = np.float32(TEMPLATE_SIZE - 1.001)  # keeps the right and lower neighbour inside
    column = np.clip((x + TEMPLATE_EXTENT) * per_unit, 0, last)
    row = np.clip((y + TEMPLATE_EXTENT) * per_unit, 0, last)
    left, top = column.astype(np.int32), row.astype(np.int32)
    column -= left
    row -= top
    flat = templates.ravel()
    at = chosen.astype(np.int32)[:, None] * TEMPLATE_SIZE**2 + top * TEMPLATE_SIZE + left
    upper = flat[at] * (1 - column) + flat[at + 1] * column
    lower = flat[at + TEMPLATE_SIZE] * (1 - column) + flat[at + TEMPLATE_SIZE + 1] * column
    looked_up: NDArray[np.float32] = upper * (1 - row) + lower * row
    return looked_up


def _places(
    n: int, side: int, how: Warp, rng: np.random.Generator
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the position in its template of each pixel of each example: x and y, n × side²."""

    def column(values: NDArray[np.float64]) -> NDArray[np.float32]:
        return values.astype(np.float32)[:, None]

    angle = column(rng.normal(0, how.rotation, n))
    shear = column(rng.normal(0, how.shear, n))
    width = column(rng.uniform(*how.scale, n))
    height = width / column(rng.uniform(1 - how.stretch, 1 + how.stretch, n))
    shift_x, shift_y = (column(rng.uniform(-how.shift, how.shift, n)) for _ in "xy")
    axis = column((np.arange(side) + 0.5) / side * 2 - 1)
    x = np.tile(axis.T, side) - shift_x
    y = np.repeat(axis.T, side, axis=1) - shift_y
    cos, sin = np.cos(angle), np.sin(angle)
    x, y = (cos * x + sin * y) / width, (cos * y - sin * x) / height
    x = x + shear * y
    wave_x, wave_y = (column(rng.uniform(0, how.wave, n)) for _ in "xy")
    rate_x, rate_y = (column(rng.uniform(1.5, 4, n)) for _ in "xy")
    phase_x, phase_y = (column(rng.uniform(0, 2 * np.pi, n)) for _ in "xy")
    return (
        x + wave_x * np.sin(rate_x * y + phase_x),
        y + wave_y * np.sin(rate_y * x + phase_y),
    )

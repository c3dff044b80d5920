"""From a few drawn templates to many examples: every example is one template, warped its own way.

All examples of a batch are looked up at once, so that 70,000 of them take seconds.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TEMPLATE_SIZE = 56  # pixels a side of a template: at 28 a side, examples stay crisp
TEMPLATE_EXTENT = 1.4  # a template covers -1.4 … 1.4; the drawing itself is within -1 … 1


@dataclass(frozen=True)
class Warp:
    """How far examples differ from their template. The frame is -1 … 1."""

    rotation: float  # standard deviation, radians
    shear: float  # standard deviation
    scale: tuple[float, float]  # size of the drawing in the frame, from … to
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
    """Look up `templates[chosen]` through one random warp each.

    Args:
        templates: K × TEMPLATE_SIZE × TEMPLATE_SIZE.
        chosen: n indices below K.
        side: of an example, in pixels.
        how: the ranges of the random warps.
        rng: where the randomness comes from.

    Returns:
        n × side² values, interpolated between the template's pixels.
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
    """Return where in its template each pixel of each example looks (two arrays, n × side²)."""

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

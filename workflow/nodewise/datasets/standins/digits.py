"""Drawn digits: pen strokes through shaken control points, kept as fields of distance to the pen.

A distance field lets one drawing be inked with any pen width afterwards.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import make_interp_spline
from scipy.spatial import KDTree

from nodewise.datasets.standins.warping import TEMPLATE_EXTENT, TEMPLATE_SIZE

Point = tuple[float, float]
Stroke = tuple[Point, ...]
Style = tuple[Stroke, ...]

SHAKE = 0.075  # standard deviation of a control point; a digit is 2 high
POINTS_PER_STROKE = 40

_LOWER_BOWL: Stroke = (
    (-0.1, -0.05),
    (0.45, 0.15),
    (0.5, 0.6),
    (0.1, 1),
    (-0.3, 0.95),
    (-0.55, 0.7),
)
_NINE_LOOP: Stroke = (
    (0.42, -0.65), (0.1, -1), (-0.35, -0.8), (-0.42, -0.35), (-0.05, -0.08), (0.35, -0.3),
    (0.42, -0.65),
)  # fmt: skip
_ONE: Stroke = ((0.05, -1), (0, 0), (-0.05, 1))
_SEVEN: Style = (((-0.55, -0.9), (0.5, -0.92)), ((0.5, -0.92), (0.15, -0.1), (-0.15, 1)))

# The ways of writing each digit. x grows to the right, y downwards, both within -1 … 1. Strokes
# that share a control point stay joined, since a shaken point moves in all of them.
STYLES: tuple[tuple[Style, ...], ...] = (
    (  # 0
        (
            (
                (0.05, -1), (-0.5, -0.6), (-0.62, 0), (-0.45, 0.7), (0, 1),
                (0.5, 0.65), (0.62, 0), (0.45, -0.7), (0.05, -1),
            ),
        ),
    ),
    (  # 1: a plain stroke, with a flag, with a flag and a foot
        (_ONE,),
        (_ONE, ((-0.35, -0.6), (0.05, -1))),
        (_ONE, ((-0.35, -0.6), (0.05, -1)), ((-0.4, 1), (-0.05, 1), (0.35, 1))),
    ),
    (  # 2: with a corner, with a loop
        (
            (
                (-0.5, -0.55), (-0.3, -0.9), (0.1, -1), (0.5, -0.65), (0.4, -0.15), (0, 0.4),
                (-0.55, 0.95),
            ),
            ((-0.55, 0.95), (0, 0.9), (0.6, 0.95)),
        ),
        (
            (
                (-0.5, -0.6), (-0.25, -0.95), (0.2, -0.95), (0.45, -0.55), (0.25, 0), (-0.2, 0.75),
                (-0.5, 0.95), (-0.55, 0.65), (-0.2, 0.65), (0.2, 0.95), (0.6, 0.85),
            ),
        ),
    ),
    (  # 3: round, with a flat top
        (((-0.5, -0.75), (-0.1, -1), (0.4, -0.8), (0.4, -0.35), (-0.1, -0.05)), _LOWER_BOWL),
        (((-0.5, -0.95), (0.45, -0.95)), ((0.45, -0.95), (-0.1, -0.05)), _LOWER_BOWL),
    ),
    (  # 4: open, closed
        (
            ((-0.35, -0.95), (-0.5, -0.3), (-0.45, 0.1)),
            ((-0.45, 0.1), (0.1, 0.12), (0.6, 0.05)),
            ((0.3, -0.95), (0.25, 0), (0.2, 1)),
        ),
        (((0.3, -1), (-0.6, 0.25)), ((-0.6, 0.25), (0.65, 0.25)), ((0.3, -1), (0.3, 1))),
    ),
    (  # 5
        (
            ((0.5, -0.95), (-0.35, -0.9)),
            ((-0.35, -0.9), (-0.45, -0.1)),
            ((-0.45, -0.1), (0, -0.25), (0.5, 0.1), (0.5, 0.6), (0.1, 0.98), (-0.5, 0.85)),
        ),
    ),
    (  # 6
        (
            (
                (0.4, -0.95), (-0.1, -0.6), (-0.45, 0), (-0.5, 0.6), (-0.1, 1),
                (0.35, 0.8), (0.45, 0.4), (0.1, 0.1), (-0.3, 0.25), (-0.5, 0.6),
            ),
        ),
    ),
    (_SEVEN, (*_SEVEN, ((-0.25, 0), (0.45, -0.05)))),  # 7: plain, with a bar
    (  # 8: in one stroke, as two rings
        (
            (
                (0.38, -0.65), (0, -1), (-0.4, -0.7), (-0.2, -0.3), (0.2, 0), (0.48, 0.5),
                (0.05, 1), (-0.45, 0.55), (-0.2, 0.05), (0.2, -0.3), (0.38, -0.65),
            ),
        ),
        (
            ((0, -0.05), (-0.38, -0.5), (0, -1), (0.38, -0.5), (0, -0.05)),
            ((0, -0.05), (-0.48, 0.45), (0, 1), (0.48, 0.45), (0, -0.05)),
        ),
    ),
    (  # 9: a straight stem, a hook
        (_NINE_LOOP, ((0.42, -0.65), (0.4, 0.1), (0.2, 1))),
        (_NINE_LOOP, ((0.42, -0.65), (0.4, 0.3), (0.1, 0.95), (-0.35, 0.85))),
    ),
)  # fmt: skip


def template(label: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Draw one way of writing the digit `label`.

    Returns:
        Distance to the nearest pen stroke, TEMPLATE_SIZE × TEMPLATE_SIZE, in units of half a digit.
    """
    styles = STYLES[label]
    style = styles[rng.integers(len(styles))]
    points = {point: point + rng.normal(0, SHAKE, 2) for stroke in style for point in stroke}
    drawn = np.concatenate([_curve([points[point] for point in stroke]) for stroke in style])
    axis = np.linspace(-TEMPLATE_EXTENT, TEMPLATE_EXTENT, TEMPLATE_SIZE)
    x, y = np.meshgrid(axis, axis)
    distance, _ = KDTree(drawn).query(np.stack([x, y], axis=-1))
    return np.asarray(distance, np.float32)


def _curve(points: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return POINTS_PER_STROKE places on a smooth curve through `points`, evenly by parameter."""
    through = np.array(points)
    steps = np.hypot(*np.diff(through, axis=0).T)
    parameter = np.concatenate([[0], np.cumsum(steps)])
    spline = make_interp_spline(parameter, through, k=min(3, len(points) - 1))
    curve: NDArray[np.float64] = spline(np.linspace(0, parameter[-1], POINTS_PER_STROKE))
    return curve


def ink(sampled: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.float32]:
    """Turn warped distance fields (n × pixels) into grey values 0 … 1, each by its own pen."""
    n = len(sampled)
    half_width = rng.uniform(0.06, 0.22, (n, 1)).astype(np.float32)
    softness = rng.uniform(0.08, 0.16, (n, 1)).astype(np.float32)
    brightness = rng.uniform(0.65, 1.0, (n, 1)).astype(np.float32)
    grey: NDArray[np.float32] = np.clip((half_width - sampled) / softness + 0.5, 0, 1) * brightness
    return grey

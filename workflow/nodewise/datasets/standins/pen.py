"""A pen that draws shaken shapes on one template, smoothly."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from nodewise.datasets.standins.warping import TEMPLATE_EXTENT, TEMPLATE_SIZE

Point = tuple[float, float]

FINE = 3  # templates are drawn this many times larger and then averaged down: smooth edges
SHAKE = 0.02  # standard deviation of a corner; a garment is about 2 high


class Pen:
    """Draws on one template. x grows to the right, y downwards, the middle is 0, grey is 0 … 1."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._image = Image.new("L", (TEMPLATE_SIZE * FINE, TEMPLATE_SIZE * FINE))
        self._draw = ImageDraw.Draw(self._image)
        self._rng = rng

    def area(self, points: Sequence[Point], grey: float = 1.0) -> None:
        """Fill the polygon through `points`, each a little shaken."""
        shaken = np.array(points) + self._rng.normal(0, SHAKE, (len(points), 2))
        self._draw.polygon(_pixels(shaken), fill=_level(grey))

    def both(self, right_half: Sequence[Point], grey: float = 1.0) -> None:
        """Fill the polygon made of `right_half` (from top to bottom) and its mirror image."""
        half = np.array(right_half) + self._rng.normal(0, SHAKE, (len(right_half), 2))
        mirrored = half[::-1] * (-1, 1)
        self._draw.polygon(_pixels(np.concatenate([half, mirrored])), fill=_level(grey))

    def line(self, points: Sequence[Point], width: float, grey: float) -> None:
        """Draw a line of `width` through `points`."""
        pixels = _pixels(np.array(points))
        self._draw.line(pixels, fill=_level(grey), width=_wide(width), joint="curve")

    def arc(self, middle: Point, radius: Point, degrees: Point, width: float, grey: float) -> None:
        """Draw a part of an ellipse; 180 … 360 degrees is its upper half."""
        box = _pixels(np.array([np.subtract(middle, radius), np.add(middle, radius)]))
        self._draw.arc(box, *degrees, fill=_level(grey), width=_wide(width))

    def disc(self, middle: Point, radius: Point, grey: float) -> None:
        """Fill an ellipse."""
        box = _pixels(np.array([np.subtract(middle, radius), np.add(middle, radius)]))
        self._draw.ellipse(box, fill=_level(grey))

    def drawn(self) -> NDArray[np.float32]:
        """Return what was drawn, TEMPLATE_SIZE × TEMPLATE_SIZE, grey 0 … 1."""
        grey: NDArray[np.float32] = np.array(self._image.reduce(FINE), np.float32)
        return grey / np.float32(255)


def _pixels(points: NDArray[np.float64]) -> list[Point]:
    scaled = (points + TEMPLATE_EXTENT) * (TEMPLATE_SIZE * FINE / (2 * TEMPLATE_EXTENT))
    return [(float(x), float(y)) for x, y in scaled]


def _wide(width: float) -> int:
    return max(1, round(width * TEMPLATE_SIZE * FINE / (2 * TEMPLATE_EXTENT)))


def _level(grey: float) -> int:
    return round(255 * grey)

"""Generate synthetic data ("stand-ins") for datasets that are not available.

The data is labelled and can be learned. Each image is one of a few hundred templates of its class,
warped, coloured and with noise added. Training and test images come from different templates, so a
model cannot reach a good test accuracy by memorising templates.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from nodewise.core.errors import UserError
from nodewise.data.facts import Facts, StandIn
from nodewise.data.prepared import Arrays
from nodewise.data.standins import reviews, scenes, shapes
from nodewise.data.standins.warping import Warp, warp

TEMPLATES = 200  # per class and split; fewer if each would be used less than twice
CHUNK = 784_000  # pixels generated at a time; few enough for the processor's cache

Advance = Callable[[int], None]


@dataclass(frozen=True)
class Kind:
    """How one kind of image is generated.

    Args:
        template: returns a template of a class.
        finish: turns warped templates into grey values or colours, 0 … 1.
        warp: ranges of the random warps.
        noise: largest standard deviation of the pixel noise, for grey values 0 … 1.
        shape: height, width and channels of an image.
        classes: number of classes.
    """

    template: Callable[[int, np.random.Generator], NDArray[np.float32]]
    finish: Callable[[NDArray[np.float32], np.random.Generator], NDArray[np.float32]]
    warp: Warp
    noise: float
    shape: tuple[int, int, int] = (28, 28, 1)
    classes: int = 10


# Named after what they replace. A linear model learns most of the examples, a small network more.
_TIGHT = Warp(rotation=0.1, shear=0.08, scale=(0.75, 1.0), stretch=0.15, shift=0.18, wave=0.06)
_LOOSE = Warp(rotation=0.15, shear=0.1, scale=(0.5, 0.95), stretch=0.2, shift=0.25, wave=0.06)
_ONE, _OTHER = (partial(shapes.template, family) for family in (0, 1))
KINDS: dict[StandIn, Kind] = {
    "digits": Kind(_ONE, shapes.dye, _TIGHT, 0.06),
    "garments": Kind(_OTHER, shapes.dye, _TIGHT, 0.06),
    "objects": Kind(_OTHER, scenes.paint, _LOOSE, 0.06, (32, 32, 3)),
    "photos": Kind(_OTHER, scenes.paint, _LOOSE, 0.06, (128, 128, 3), classes=8),
}


def draw_dataset(name: str, facts: Facts, stand_in: StandIn, seed: int, advance: Advance) -> Arrays:
    """Generate synthetic data for the dataset `name`; see `draw`.

    Args:
        name: name of the dataset, for messages.
        facts: its shape, classes and numbers of examples.
        stand_in: kind of data to generate.
        seed: seed of all randomness.
        advance: called with the number of examples just generated.

    Raises:
        UserError: this kind of data has another shape or number of classes than the dataset.
    """
    classes = len(facts.classes)
    counts = (facts.train_examples, facts.test_examples)
    if stand_in == "reviews":
        if len(facts.shape) != 1:
            raise UserError(f"{name}: stand_in: {stand_in} are only for token ids")
        parts = [
            reviews.draw(n, classes, facts.shape[0], seed, split, advance)
            for split, n in enumerate(counts)
        ]
        return Arrays(*parts[0], *parts[1])
    kind = KINDS[stand_in]
    if facts.shape != kind.shape or classes != kind.classes:
        wanted = "×".join(map(str, kind.shape))
        raise UserError(f"{name}: stand_in: only for {kind.classes} classes of {wanted}")
    drawn = [draw(stand_in, n, seed, split, advance) for split, n in enumerate(counts)]
    return Arrays(*drawn[0], *drawn[1])


def draw(
    stand_in: StandIn, examples: int, seed: int, split: int, advance: Advance
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Generate labelled images. The same arguments give the same images.

    On another kind of processor, some pixels may be rounded to a neighbouring level.

    Args:
        stand_in: kind of image, one of `KINDS`.
        examples: number of images. The classes are as equally frequent as this number allows.
        seed: seed of all randomness.
        split: 0 for training, 1 for test. They have different templates and examples.
        advance: called with the number of images just generated.

    Returns:
        Images (examples × the shape of the kind) and labels (examples), both uint8.
    """
    kind = KINDS[stand_in]
    rng = np.random.default_rng([seed, split])
    templates = min(TEMPLATES, 1 + examples // (2 * kind.classes))
    pool = np.stack([kind.template(i // templates, rng) for i in range(kind.classes * templates)])
    labels = rng.permutation(np.arange(examples) % kind.classes).astype(np.uint8)
    side, _, channels = kind.shape
    pictures = np.empty((examples, side * side * channels), np.uint8)
    chunk = CHUNK // side**2
    for start in range(0, examples, chunk):
        part = labels[start : start + chunk].astype(np.int64)
        chosen = part * templates + rng.integers(templates, size=len(part))
        level = kind.finish(warp(pool, chosen, side, kind.warp, rng), rng)
        noise = rng.standard_normal(level.shape, dtype=np.float32)
        noise *= rng.uniform(0, kind.noise, (len(part), 1)).astype(np.float32)
        pictures[start : start + chunk] = np.clip(level + noise, 0, 1) * 255 + 0.5
        advance(len(part))
    return pictures.reshape(examples, *kind.shape), labels

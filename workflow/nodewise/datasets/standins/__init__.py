"""Generated stand-ins for datasets that cannot be had: drawn, labelled, and worth learning.

An example is one of a few hundred templates of its class, warped, coloured and made noisy. Training
and test examples come from different templates, so that a good test accuracy is not mere memory.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nodewise.datasets.registry import StandIn
from nodewise.datasets.standins import digits, garments
from nodewise.datasets.standins.warping import SIZE, Warp, warp

CLASSES = 10
SHAPE = (SIZE, SIZE, 1)
TEMPLATES = 200  # per class and split; fewer if each would be used less than twice
CHUNK = 1000  # examples drawn at a time: small enough for the processor's cache


@dataclass(frozen=True)
class Kind:
    """How one kind of stand-in is made."""

    template: Callable[[int, np.random.Generator], NDArray[np.float32]]
    finish: Callable[[NDArray[np.float32], np.random.Generator], NDArray[np.float32]]
    warp: Warp
    noise: float  # largest standard deviation of the pixel noise, of grey 0 … 1


KINDS: dict[StandIn, Kind] = {
    "digits": Kind(
        digits.template,
        digits.ink,
        Warp(rotation=0.15, shear=0.15, scale=(0.55, 0.85), stretch=0.2, shift=0.15, wave=0.08),
        noise=0.1,
    ),
    "garments": Kind(
        garments.template,
        garments.dye,
        Warp(rotation=0.06, shear=0.04, scale=(0.75, 1.0), stretch=0.15, shift=0.12, wave=0.05),
        noise=0.06,
    ),
}


def draw(
    stand_in: StandIn, examples: int, seed: int, split: int, advance: Callable[[int], None]
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Draw `examples` labelled images; the same arguments give the same ones.

    That holds on one kind of processor: another one may round some pixels to the next grey level.

    Args:
        stand_in: what to draw.
        examples: how many; the classes are as equally frequent as the count allows.
        seed: of all randomness.
        split: 0 for training, 1 for test: other templates, other examples.
        advance: called with the number of examples just made.

    Returns:
        Images (examples × SHAPE) and labels (examples), both uint8.
    """
    kind = KINDS[stand_in]
    rng = np.random.default_rng([seed, split])
    templates = min(TEMPLATES, 1 + examples // (2 * CLASSES))
    pool = np.stack([kind.template(i // templates, rng) for i in range(CLASSES * templates)])
    labels = rng.permutation(np.arange(examples) % CLASSES).astype(np.uint8)
    images = np.empty((examples, SIZE * SIZE), np.uint8)
    for start in range(0, examples, CHUNK):
        part = labels[start : start + CHUNK].astype(np.int64)
        chosen = part * templates + rng.integers(templates, size=len(part))
        grey = kind.finish(warp(pool, chosen, kind.warp, rng), rng)
        noise = rng.standard_normal(grey.shape, dtype=np.float32)
        noise *= rng.uniform(0, kind.noise, (len(part), 1)).astype(np.float32)
        images[start : start + CHUNK] = np.clip(grey + noise, 0, 1) * 255 + 0.5
        advance(len(part))
    return images.reshape(examples, *SHAPE), labels

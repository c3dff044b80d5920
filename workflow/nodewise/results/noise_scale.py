"""The gradient noise scale of a model while it trains; what `measure-noise-scale` writes.

B = tr Σ/|G|², where G is the mean gradient and Σ the covariance of the gradient of one example:
batches far below B lose steps to noise, batches far above it waste examples. Both are told from
squared lengths of gradients at two batch sizes, as the square of a gradient of B examples is
|G|² + tr Σ/B on average (S. McCandlish et al., An empirical model of large-batch training, 2018,
arXiv:1812.06162, appendix A.1).

One JSON file per model, written whole, checked against the one schema below. It holds what was
measured and nothing that follows from it.
"""

import itertools
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from nodewise.core.cell import Frozen, Name
from nodewise.core.schema import read_json
from nodewise.results.quantities import Count
from nodewise.results.record import DataSource, Provenance, WeightsSource

Square = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Point(Frozen):
    """Squared lengths of gradients after `step` steps of training; lists have an entry per group.

    `small_squares` is the mean over the group's small batches, `big_squares` that of the gradient
    of all its examples together.
    """

    step: Count
    small_squares: list[Square] = Field(min_length=1)
    big_squares: list[Square] = Field(min_length=1)

    @model_validator(mode="after")
    def _equally_long(self) -> Self:
        if len(self.small_squares) != len(self.big_squares):
            raise ValueError("big_squares: must have one entry per group, as small_squares has")
        return self


class NoiseScale(Frozen):
    """What was measured of one model: batches of `small_batch` examples, groups of `big_batch`."""

    schema_version: Literal[1] = 1
    model: Name
    kind: Literal["measured"] = "measured"
    started_at: datetime
    finished_at: datetime
    data: DataSource
    weights: WeightsSource | None
    provenance: Provenance
    seed: Count
    small_batch: int = Field(ge=1)
    big_batch: int = Field(ge=2)
    points: list[Point] = Field(min_length=1)

    @model_validator(mode="after")
    def _small_is_smaller(self) -> Self:
        if self.small_batch >= self.big_batch:
            raise ValueError("small_batch: must be less than big_batch")
        return self

    def estimates(self, point: Point) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return tr Σ and |G|² by each group, shape (groups,): unbiased, so maybe below 0."""
        small, big = np.array(point.small_squares), np.array(point.big_squares)
        noise = (small - big) / (1 / self.small_batch - 1 / self.big_batch)
        signal = self.big_batch * big - self.small_batch * small
        return noise, signal / (self.big_batch - self.small_batch)


def group_squares(
    gradients: Iterable[NDArray[np.float32]], batches: int, groups: int
) -> Iterator[tuple[float, float]]:
    """Yield each group's mean squared length of its gradients, and that of their mean.

    Args:
        gradients: of small batches of one size, (parameters,) each: batches × groups or more.
        batches: small batches in a group.
        groups: how many groups.
    """
    stream = iter(gradients)
    for _ in range(groups):
        squares, total = 0.0, np.zeros(1)
        for gradient in itertools.islice(stream, batches):
            exact = gradient.astype(np.float64)
            squares += float(exact @ exact)
            total = total + exact
        mean = total / batches
        yield squares / batches, float(mean @ mean)


def read_noise_scale(path: Path) -> NoiseScale:
    """Read and check what `nodewise measure-noise-scale` wrote.

    Raises:
        UserError: the file is missing, is not JSON, or does not fit the schema.
    """
    return read_json(NoiseScale, path)

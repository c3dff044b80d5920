"""The gradient noise scale of a model during training, and the file of `measure-noise-scale`.

The noise scale is tr Σ/|G|², where G is the mean gradient and Σ the covariance of the gradient of
one example. Batches far below it lose steps to noise; batches far above it waste examples. Both
terms are estimated from squared norms of gradients at two batch sizes: the expected squared norm of
a gradient of B examples is |G|² + tr Σ/B (S. McCandlish et al., An empirical model of large-batch
training, 2018, arXiv:1812.06162, appendix A.1).

There is one JSON file per model, written atomically and checked against this schema. It holds
measurements only, nothing derived from them.
"""

import itertools
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from nodewise.core.cell import Frozen, Name
from nodewise.results.record import Count, DataSource, Provenance, WeightsSource

Square = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Point(Frozen):
    """Squared norms of gradients after `step` steps of training. Lists have one entry per group.

    `small_squares` is the mean squared norm over the small batches of a group. `big_squares` is the
    squared norm of the gradient of all examples of the group together.
    """

    step: Count
    small_squares: list[Square] = Field(min_length=1)
    big_squares: list[Square] = Field(min_length=1)


class NoiseScale(Frozen):
    """Measurements of one model, with small batches of `small_batch` examples.

    Groups have `big_batch` examples.
    """

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

    def estimates(self, point: Point) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return estimates of tr Σ and |G|² by group, (groups,) each.

        They are unbiased and can therefore be below 0.
        """
        small, big = np.array(point.small_squares), np.array(point.big_squares)
        noise = (small - big) / (1 / self.small_batch - 1 / self.big_batch)
        signal = self.big_batch * big - self.small_batch * small
        return noise, signal / (self.big_batch - self.small_batch)


def group_squares(
    gradients: Iterable[NDArray[np.float32]], batches: int, groups: int
) -> Iterator[tuple[float, float]]:
    """Yield for each group the mean squared norm of its gradients and that of their mean.

    Args:
        gradients: at least batches × groups gradients of small batches of one size, (parameters,)
            each.
        batches: number of small batches in a group.
        groups: number of groups.
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

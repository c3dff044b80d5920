"""90 % intervals of medians: of a few launches of a cell, and of many repeats of anything."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

INTERVAL = 0.90
DEVIATIONS = 1.645
"""Standard deviations to each end of such an interval of normal values."""


def median_error(repeats: ArrayLike) -> NDArray[np.float64]:
    """Return the standard error of a median of so many normal values, in standard deviations.

    Right for one and for many, and 1.11 times too much at worst, for two.
    """
    many = np.asarray(repeats, dtype=np.float64)
    return np.asarray(np.sqrt(np.pi / (2 * many + np.pi - 2)))


def students_t(freedom: ArrayLike) -> NDArray[np.float64]:
    """Return how many standard errors an interval reaches to each side; NaN without freedom."""
    from scipy.special import stdtrit

    errors = stdtrit(np.asarray(freedom, dtype=np.float64), (1 + INTERVAL) / 2)
    return np.asarray(errors, dtype=np.float64)


def pooled_factors(groups: Sequence[ArrayLike]) -> NDArray[np.float64]:
    """Return for each group of repeats what its median times, and over, are the interval's ends.

    Groups of few repeats of positive values share the spread of their logarithms; the interval is
    Student's t. A group of one has none: NaN.
    """
    logs = [pd.Series(np.log(np.asarray(group, dtype=np.float64))) for group in groups]
    freedom = sum(len(group) - 1 for group in logs)
    if not freedom:
        return np.full(len(logs), np.nan)
    noise = (sum(squares(group) for group in logs) / freedom) ** 0.5
    repeats = np.array([len(group) if len(group) > 1 else np.nan for group in logs])
    return np.asarray(np.exp(noise * students_t(freedom) * median_error(repeats)))


def squares(logs: pd.Series) -> float:
    """Return the sum of the squares of what values differ from their mean."""
    return float(((logs - logs.mean()) ** 2).sum())


def median_interval(repeats: pd.Series) -> tuple[float, float]:
    """Return the interval of the median of some repeats, whatever their distribution.

    Both ends are repeats, as many from the smallest as from the largest: the narrowest that hold
    the median in 90 % of all cases or more (H. A. David and H. N. Nagaraja, Order Statistics,
    3rd ed., 2003, section 7.1). Fewer than five have none: both ends are NaN.
    """
    from scipy.special import bdtr

    values = np.sort(repeats.to_numpy(dtype=float))
    ranks = np.arange(len(values) // 2)
    outside = 2 * bdtr(ranks, len(values), 0.5)  # that only so many are below, or above
    allowed = int(np.sum(outside <= 1 - INTERVAL))
    if not allowed:
        return np.nan, np.nan
    return float(values[allowed - 1]), float(values[-allowed])

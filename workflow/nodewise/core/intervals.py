"""90 % confidence intervals of medians, of a few launches of a cell."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

INTERVAL = 0.90
DEVIATIONS = 1.645
"""Half width of a 90 % interval of normally distributed values, in standard deviations."""


def median_error(repeats: ArrayLike) -> NDArray[np.float64]:
    """Return the standard error of a median of normal values, in standard deviations.

    The formula is exact for one value and in the limit of many values. Its largest error is that
    for two values, where the result is 1.11 times too large.

    Args:
        repeats: number of values.
    """
    many = np.asarray(repeats, dtype=np.float64)
    return np.asarray(np.sqrt(np.pi / (2 * many + np.pi - 2)))


def students_t(freedom: ArrayLike, level: float = INTERVAL) -> NDArray[np.float64]:
    """Return the half width of an interval in standard errors, by Student's t distribution.

    Args:
        freedom: degrees of freedom. The result is NaN for 0.
        level: the confidence level.
    """
    from scipy.special import stdtrit

    errors = stdtrit(np.asarray(freedom, dtype=np.float64), (1 + level) / 2)
    return np.asarray(errors, dtype=np.float64)


def pooled_factors(groups: Sequence[ArrayLike]) -> NDArray[np.float64]:
    """Return a factor for each group of repeats that gives the interval of the group's median.

    The interval reaches from the median divided by the factor to the median times the factor. The
    spread of the logarithms is pooled over all groups, because each has few repeats. The interval
    follows from Student's t distribution.

    Args:
        groups: the positive values of each group.

    Returns:
        One factor per group; NaN for a group of one value.
    """
    logs = [pd.Series(np.log(np.asarray(group, dtype=np.float64))) for group in groups]
    freedom = sum(len(group) - 1 for group in logs)
    if not freedom:
        return np.full(len(logs), np.nan)
    squares = [((group - group.mean()) ** 2).sum() for group in logs]
    noise = (sum(squares) / freedom) ** 0.5
    repeats = np.array([len(group) if len(group) > 1 else np.nan for group in logs])
    return np.asarray(np.exp(noise * students_t(freedom) * median_error(repeats)))

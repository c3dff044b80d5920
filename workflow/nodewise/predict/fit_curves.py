"""Fit all curves of a table of points, measured or imported.

Curves over one link are fitted together; see `curve_groups`. The law follows from what ran.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import pandas as pd

from nodewise.predict.curve_groups import CurveGroup, find_groups
from nodewise.predict.fit import DRAWS, Fit, Priors, fit
from nodewise.predict.known_links import calibrated_rates, known_of
from nodewise.results.calibration import Calibration


class FittedGroup(NamedTuple):
    """A group of curves and the fit of its law."""

    group: CurveGroup
    fit: Fit


def fit_curves(
    points: pd.DataFrame,
    calibrations: Iterable[Calibration] = (),
    *,
    draws: int = DRAWS,
    progress: Callable[[int], None] = lambda curves: None,
) -> list[FittedGroup]:
    """Fit all curves. The result is deterministic.

    Args:
        points: the table of points (`results.curve_points`).
        calibrations: calibrations of clusters, for priors on the bandwidth of their links.
        draws: number of equally likely coefficients, from which intervals come.
        progress: function that is called after each group with its number of curves.

    Raises:
        UserError: the table lacks a column.
    """
    fits = []
    for group, priors in groups_to_fit(points, calibrations):
        fitted = fit(group.law, group.fitted.points(), priors=priors, draws=draws)
        fits.append(FittedGroup(group, fitted))
        progress(group.rows["curve"].nunique())
    return fits


def groups_to_fit(
    points: pd.DataFrame, calibrations: Iterable[Calibration] = ()
) -> Iterator[tuple[CurveGroup, Priors]]:
    """Yield the groups that have points to fit, with what is known of them."""
    calibrated = calibrated_rates(calibrations)
    for group in find_groups(points):
        if group.rows["fitted"].any():
            yield group, known_of(group, calibrated)

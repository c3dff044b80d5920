"""Fit all curves of a table of points, measured or imported.

Curves over one link are fitted together; see `curve_groups`. The law follows from what ran.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pandas as pd

from nodewise.predict.curve_groups import CurveGroup, find_groups
from nodewise.predict.fit import DRAWS, Fit, Priors, fit
from nodewise.predict.known_links import calibrated_links, learned_priors, link_priors
from nodewise.results.calibration import Calibration
from nodewise.results.curve_points import BY_OTHERS


@dataclass(frozen=True)
class FittedGroup:
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
        calibrations: calibrations of clusters, for priors on latency and bandwidth.
        draws: number of equally likely coefficients, from which intervals come.
        progress: function that is called after each group with its number of curves.

    Raises:
        UserError: the table lacks a column.
    """
    fits = []
    learned: dict[tuple[str, str], Priors] = {}
    for group, known in groups_to_fit(points, calibrations):
        of_link = group.link, group.law.name
        priors = {**known, **learned.get(of_link, {})}
        fitted = fit(group.law, group.fitted.points(), priors=priors, draws=draws)
        learned.setdefault(of_link, learned_priors(group, fitted, priors))
        fits.append(FittedGroup(group, fitted))
        progress(group.rows["curve"].nunique())
    return fits


def groups_to_fit(
    points: pd.DataFrame, calibrations: Iterable[Calibration] = ()
) -> list[tuple[CurveGroup, Priors]]:
    """Return the groups that have points to fit, with what is known of their links.

    Groups measured by the study come before imported and published ones. Each part is sorted by
    link and law, and then by number of points, most first.
    """
    calibrated = calibrated_links(calibrations)
    groups = [group for group in find_groups(points) if group.rows["fitted"].any()]
    groups.sort(key=_order)
    return [(group, link_priors(group, calibrated)) for group in groups]


def _order(group: CurveGroup) -> tuple[bool, str, str, int]:
    by_others = group.first["kind"] in BY_OTHERS
    return by_others, group.link, group.law.name, -int(group.rows["fitted"].sum())

"""Fit all curves of a table of points, wherever they came from.

Curves over one link are fitted together; see `curve_groups`. Laws are chosen by what ran, and
where that leaves several, by what they foretell; see `choose_law`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Protocol

import pandas as pd

from nodewise.predict.choose_law import Choice, choose
from nodewise.predict.curve_groups import CurveGroup, find_groups
from nodewise.predict.fit import DRAWS, Fit, fit
from nodewise.predict.law import Law
from nodewise.predict.least_squares import Priors
from nodewise.predict.points import Points
from nodewise.predict.priors import calibrated_links, known_priors, learned_priors
from nodewise.results.calibration import Calibration
from nodewise.results.curve_points import BY_OTHERS


@dataclass(frozen=True)
class FittedGroup:
    """A group with the law that was chosen, and its fit."""

    group: CurveGroup
    choice: Choice
    fit: Fit


class FitPoints(Protocol):
    """How a law is fitted to points: `fit.fit`, or `bayes.fit`."""

    def __call__(
        self, law: Law, points: Points, *, priors: Priors | None = None, draws: int = DRAWS
    ) -> Fit:
        """Return the fit."""


def fit_curves(
    points: pd.DataFrame,
    calibrations: Iterable[Calibration] = (),
    *,
    draws: int = DRAWS,
    fit_points: FitPoints = fit,
    progress: Callable[[int], None] = lambda curves: None,
) -> list[FittedGroup]:
    """Fit all curves; the same input gives the same fits.

    Args:
        points: the table of points (`results.curve_points`).
        calibrations: what is known of latency and bandwidth of clusters beforehand.
        draws: how many equally likely coefficients the intervals come from.
        fit_points: what fits a law to the points of a group.
        progress: is called with the number of curves that were just fitted.

    Raises:
        UserError: the table lacks a column.
    """
    done = []
    learned: dict[tuple[str, str], Priors] = {}
    for ran, known in groups_to_fit(points, calibrations):
        priors = learned.get((ran.link, ran.law.name), known)
        of_group = ran.fitted.points()
        choice = choose(ran.possible_laws(), of_group, priors)
        group = replace(ran, law=choice.law)
        fitted = fit_points(group.law, of_group, priors=priors, draws=draws)
        learned.setdefault((ran.link, ran.law.name), learned_priors(group, fitted))
        done.append(FittedGroup(group, choice, fitted))
        progress(group.rows["curve"].nunique())
    return done


def groups_to_fit(
    points: pd.DataFrame, calibrations: Iterable[Calibration] = ()
) -> list[tuple[CurveGroup, Priors]]:
    """Return the groups with points to fit, and what calibrations tell of each.

    The study's own come before those of others; they are by link and law, of each the one with the
    most points first.
    """
    calibrated = calibrated_links(calibrations)
    groups = [group for group in find_groups(points) if group.rows["fitted"].any()]
    groups.sort(key=_order)
    return [(group, known_priors(group, calibrated)) for group in groups]


def _order(group: CurveGroup) -> tuple[bool, str, str, int]:
    by_others = group.rows.iloc[0]["kind"] in BY_OTHERS
    return by_others, group.link, group.law.name, -int(group.rows["fitted"].sum())

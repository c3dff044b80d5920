"""Fit all curves of a table of points, measured or imported.

Curves over one link are fitted together; see `curve_groups`. The law follows from what ran. If
several laws are plausible, the one that best predicts held-out points is chosen. Neither the
quality of a fit nor an information criterion is used, because three points fit anything. Even
held-out errors say little if points are few and noisy, so the expected law is kept unless another
one is clearly better.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from nodewise.core.units import write_number
from nodewise.predict.curve_groups import CurveGroup, find_groups
from nodewise.predict.fit import DRAWS, Fit, Priors, fit
from nodewise.predict.known_links import calibrated_links, learned_priors, link_priors
from nodewise.predict.law import Law, Mask
from nodewise.predict.parts_law import AllReduce
from nodewise.predict.points import Points
from nodewise.results.calibration import Calibration
from nodewise.results.curve_points import BY_OTHERS

LEAST_NODE_COUNTS = 4
"""Lines help to choose only with at least this many node counts. Fewer cannot tell laws apart."""
CLEARLY, BY = 0.5, 0.02
"""Another law replaces the expected one if its error is below `CLEARLY` times that of the expected
law, and lower by more than `BY`."""


@dataclass(frozen=True)
class Choice:
    """The chosen one of several `laws`, and the mean held-out error of each.

    `errors` is empty if there are too few points to compare; then the first law is chosen.
    """

    laws: tuple[Law, ...]
    law: Law
    errors: tuple[float, ...] = ()

    def __str__(self) -> str:
        """Return the held-out errors in words: "ring 2.1 %, star 9 %"; empty if there are none."""
        pairs = zip(self.laws, self.errors, strict=False)
        return ", ".join(f"{named(law)} {write_number(error, 'share')}" for law, error in pairs)


@dataclass(frozen=True)
class FittedGroup:
    """A group of curves with the chosen law and its fit."""

    group: CurveGroup
    choice: Choice
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
        measured = group.fitted.points()
        choice = choose(group.possible_laws(), measured, priors)
        fitted = fit(choice.law, measured, priors=priors, draws=draws)
        learned.setdefault(of_link, learned_priors(group, fitted, priors))
        fits.append(FittedGroup(replace(group, law=choice.law), choice, fitted))
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


def named(law: Law) -> str:
    """Return the title of a law, with its overlap if it is above 1."""
    overlap = law.overlap if isinstance(law, AllReduce) else 1.0
    return law.title if overlap == 1 else f"{law.title}, overlap {overlap:g}"


def choose(laws: Sequence[Law], points: Points, priors: Priors | None = None) -> Choice:
    """Choose the law that best predicts held-out points.

    In every line with at least `LEAST_NODE_COUNTS` node counts, each node count above 1 is held
    out in turn and predicted from the rest.

    Args:
        laws: the plausible laws, the expected one first.
        points: points of any number of models and links.
        priors: what is known of coefficients.
    """
    left_out = _left_out(points) if len(laws) > 1 else []
    if not left_out:
        return Choice(tuple(laws), laws[0])
    errors = tuple(_held_out_error(law, points, left_out, priors or {}) for law in laws)
    best = int(np.argmin(errors))
    clear = errors[best] < min(CLEARLY * errors[0], errors[0] - BY)
    return Choice(tuple(laws), laws[best] if clear else laws[0], errors)


def _left_out(points: Points) -> list[Mask]:
    """Return a mask of the points to hold out for each node count."""
    (lines, of), nodes = points.lines, points.nodes
    held_out = np.zeros(len(points), bool)
    for place in range(len(lines)):
        mine = of == place
        if len(np.unique(nodes[mine])) >= LEAST_NODE_COUNTS:
            held_out |= mine & (nodes > 1)
    return [held_out & (nodes == n) for n in np.unique(nodes[held_out])]


def _held_out_error(law: Law, points: Points, left_out: Sequence[Mask], priors: Priors) -> float:
    errors = []
    for mask in left_out:
        asked = points.where(mask)
        fitted = fit(law, points.where(~mask), priors=priors, draws=0, rounds=1)
        predicted = fitted.evaluate(asked.at, asked.model, asked.link)
        errors.append(np.abs(predicted / asked.step_s - 1))
    return float(np.mean(np.concatenate(errors)))

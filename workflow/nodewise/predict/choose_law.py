"""Choose among several plausible laws by their error on held-out points.

Neither the quality of a fit nor an information criterion is used, because three points fit
anything. Even held-out errors say little if points are few and noisy, so the expected law is kept
unless another one is clearly better. With five points per curve and 3 % noise, one in ten curves
then gets a law other than the one that ran, with hardly any effect on predictions.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nodewise.core.units import write_number
from nodewise.predict.fit import fit
from nodewise.predict.law import Law, Mask
from nodewise.predict.least_squares import Priors
from nodewise.predict.parts_law import AllReduce
from nodewise.predict.points import Points

LEAST_NODE_COUNTS = 4
"""Lines take part only with at least this many node counts. Fewer cannot tell laws apart."""
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
        priors: prior mean and standard deviation of coefficients.
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
        fitted = fit(law, points.where(~mask), priors=priors, draws=0)
        predicted = fitted.evaluate(asked.at, asked.model, asked.link)
        errors.append(np.abs(predicted / asked.step_s - 1))
    return float(np.mean(np.concatenate(errors)))

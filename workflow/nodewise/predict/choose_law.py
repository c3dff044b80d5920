"""Which law, where what ran leaves several: the one that was least wrong about the unseen.

Never by how well a law fits, nor by a criterion of its size: three points fit anything. Even what
is held out says little where points are few and noisy, so that the law which is expected stays
until another is clearly better: of curves of five points with 3 % noise, every tenth then gets a
law that did not run, and predictions hardly suffer.
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
"""Fewer leave less than two held-out points of a line: too few to tell laws apart."""
CLEARLY, BY = 0.5, 0.02
"""What is expected is given up for a law with less than this share of its error, and by so much."""


@dataclass(frozen=True)
class Choice:
    """The law of `laws` that was chosen, and the mean error of each about what was left out.

    `errors` is empty if the points tell nothing; the first law is the chosen one then.
    """

    laws: tuple[Law, ...]
    law: Law
    errors: tuple[float, ...] = ()

    def __str__(self) -> str:
        """Return the held-out errors in words: "ring 2.1 %, star 9 %"; empty if there are none."""
        pairs = zip(self.laws, self.errors, strict=False)
        return ", ".join(f"{named(law)} {write_number(error, 'share')}" for law, error in pairs)


def named(law: Law) -> str:
    """Return the title of a law, and its overlap if there is any."""
    overlap = law.overlap if isinstance(law, AllReduce) else 1.0
    return law.title if overlap == 1 else f"{law.title}, overlap {overlap:g}"


def choose(laws: Sequence[Law], points: Points, priors: Priors | None = None) -> Choice:
    """Choose the law that predicts best what it was not fitted to.

    Of every line with `LEAST_NODE_COUNTS` or more, node counts above 1 are left out in turn, and
    predicted from the rest.

    Args:
        laws: those that may be, the one that is expected first.
        points: what was measured, of any number of models and links.
        priors: what is known of coefficients beforehand.
    """
    left_out = _left_out(points) if len(laws) > 1 else []
    if not left_out:
        return Choice(tuple(laws), laws[0])
    errors = tuple(_held_out_error(law, points, left_out, priors or {}) for law in laws)
    best = int(np.argmin(errors))
    clear = errors[best] < min(CLEARLY * errors[0], errors[0] - BY)
    return Choice(tuple(laws), laws[best] if clear else laws[0], errors)


def _left_out(points: Points) -> list[Mask]:
    """Return masks of the points that are left out together."""
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

"""Fit a law to what was measured, of many curves together, and ask the fit for step times.

Latency and bandwidth are shared by all curves of a link, compute by all curves of a model, so that
curves borrow strength from each other. What the points cannot tell apart is left open: the draws
then spread over everything that fits, and intervals are as wide as that.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nodewise.core.intervals import INTERVAL
from nodewise.predict.law import At, Floats, Law
from nodewise.predict.least_squares import (
    TAILED,
    Coefficient,
    Priors,
    Problem,
    coefficient_rows,
    gather,
)
from nodewise.predict.points import Label, Labels, Line, Points, lines_of

TAILS = ((1 - INTERVAL) / 2, (1 + INTERVAL) / 2)
DRAWS = 400
_DEVIATION = "compute_deviation_s"  # of a batch from the straight line
FAR_OCTAVES = 0.5
"""From here on a batch tells nothing of how far another is off the straight line."""
_UNCLEAR = 0.15  # a term that is known to no better than this share of the step is not identified


@dataclass(frozen=True)
class Fit:
    """A law with its coefficients.

    `values` has shape (coefficients,), `draws` (draws, coefficients): equally likely values.
    `noise` is the relative standard deviation of a measured step around the law. `sizes` has the
    share of the step that each coefficient's term takes, on average over the points that it
    touches, at a value of 1.
    """

    law: Law
    coefficients: tuple[Coefficient, ...]
    values: Floats
    draws: Floats
    noise: float
    sizes: Floats
    points: Points

    @cached_property
    def _index(self) -> dict[Coefficient, int]:
        return {coefficient: i for i, coefficient in enumerate(self.coefficients)}

    @cached_property
    def _deviations(self) -> dict[Line, int]:
        """The coefficients of batches that were measured: how far each is off the straight line."""
        return {
            label: i
            for (name, label), i in self._index.items()
            if name == _DEVIATION and isinstance(label, Line)
        }

    def value(self, name: str, label: Label) -> float:
        """Return a coefficient; NaN if the points have none of that label."""
        i = self._index.get((name, label))
        return float(self.values[i]) if i is not None else np.nan

    def interval(self, name: str, label: Label) -> tuple[float, float]:
        """Return both ends of the 90 % interval of a coefficient; NaN if there is none."""
        i = self._index.get((name, label))
        if i is None:
            return np.nan, np.nan
        low, high = interval_of(self.draws[:, i]).tolist()
        return low, high

    def identified(self, name: str, label: Label) -> bool:
        """Tell whether the points say how large a coefficient's term is, within 15 % of a step."""
        i = self._index.get((name, label))
        if i is None:
            return False
        low, high = interval_of(self.draws[:, i]) * self.sizes[i]
        return bool(high - low < 2 * _UNCLEAR)  # false of NaN

    def evaluate(self, at: At, model: ArrayLike = "", link: ArrayLike = "") -> Floats:
        """Return step times in seconds at points of shape (points,), each with its labels."""
        return self._steps_s(self.values_at(self.values, at, model, link), at)

    def draw(self, at: At, model: ArrayLike = "", link: ArrayLike = "") -> Floats:
        """Return equally likely step times in seconds, shape (draws, points).

        A batch that was not measured is off the straight line by as much as those that were, unless
        it is near one of them.
        """
        values = self.values_at(self.draws, at, model, link)
        if _DEVIATION in values:
            values[_DEVIATION] = values[_DEVIATION] + self._random_deviations(at, model, link)
        return self._steps_s(_never_below_0(values, at), at)

    def evaluate_interval(
        self, at: At, model: ArrayLike = "", link: ArrayLike = ""
    ) -> tuple[Floats, Floats]:
        """Return both ends of the 90 % interval of the law's step time, shape (points,) each.

        It is the interval of the law itself, not that of one more measurement. NaN without draws.
        """
        low, high = interval_of(self.draw(at, model, link))
        return low, high

    def observed_interval(
        self, at: At, model: ArrayLike = "", link: ArrayLike = ""
    ) -> tuple[Floats, Floats]:
        """Return both ends of the 90 % interval of one more measurement, shape (points,) each."""
        drawn = self.draw(at, model, link)
        chance = np.random.default_rng(len(self.points)).standard_t(TAILED, drawn.shape)
        low, high = interval_of(drawn * np.exp(self.noise * chance))
        return low, high

    def random_shares(self, model: str, link: str) -> Floats:
        """Return how far a batch far from all measured ones is off the straight line, by draw.

        Of shape (draws,), as shares of a step on one node. They spread by the share that the fitted
        deviations take. All batches of a curve are off together: that none of them is fastest by
        chance.
        """
        fitted = [*self._deviations.values()]
        if not (fitted and len(self.draws)):
            return np.zeros(len(self.draws))
        spread = np.sqrt(np.mean((self.draws[:, fitted] * self.sizes[fitted]) ** 2))
        rng = np.random.default_rng(list("|".join((model, link)).encode()))
        return np.asarray(spread * rng.standard_normal(len(self.draws)))

    def values_at(
        self, theta: Floats, at: At, model: ArrayLike = "", link: ArrayLike = ""
    ) -> dict[str, Floats]:
        """Return the values of each parameter at points: shape (points,), or (draws, points).

        How far a batch that was not measured is off the straight line, per example, lies between
        what was found of the batches around it, by the logarithm; beyond them it is as at the last.
        """
        rows = coefficient_rows(self.law, self._index, *_labels(at, model, link), at)
        values = gather(self.law, theta, rows)
        if _DEVIATION in values:
            counts = self._interpolated(at, model, link)
            some = counts.any(axis=1)  # of all lines, those of this curve
            values[_DEVIATION] = values[_DEVIATION] + theta[..., some] @ counts[some]
        return _never_below_0(values, at)

    def _steps_s(self, values: Mapping[str, Floats], at: At) -> Floats:
        return np.asarray(self.law.step_s(values, at), dtype=np.float64)

    def _unmeasured_batches(
        self, at: At, model: ArrayLike, link: ArrayLike
    ) -> Iterator[tuple[tuple[str, str], NDArray[np.intp], list[int], Floats]]:
        """Yield the curves (model and link) that have points whose batch was not measured.

        Each with these points, and with the deviations and the batches that were measured of it, in
        the order of the batches.
        """
        lines, of = lines_of(*_labels(at, model, link), at.batch)
        unknown: dict[tuple[str, str], list[int]] = {}
        for place, line in enumerate(lines):
            if line not in self._deviations:
                unknown.setdefault((line.model, line.link), []).append(place)
        for curve, places in unknown.items():
            measured = sorted(
                (line.batch, i)
                for line, i in self._deviations.items()
                if (line.model, line.link) == curve
            )
            batches = np.array([batch for batch, _ in measured], dtype=np.float64)
            yield curve, np.flatnonzero(np.isin(of, places)), [i for _, i in measured], batches

    def _interpolated(self, at: At, model: ArrayLike, link: ArrayLike) -> Floats:
        """Return what each coefficient counts at batches that were not measured.

        Of shape (coefficients, points), 0 for those that were.
        """
        counts = np.zeros((len(self.coefficients), len(at.nodes)))
        for _, points, coefficients, batches in self._unmeasured_batches(at, model, link):
            asked = at.batch[points]
            for i, one in zip(coefficients, np.eye(len(batches)), strict=True):
                shares = np.interp(np.log(asked), np.log(batches), one / batches)
                counts[i, points] = shares * asked
        return counts

    def _random_deviations(self, at: At, model: ArrayLike, link: ArrayLike) -> Floats:
        """Return random deviations of batches that were not measured: shape (draws, points).

        They are less within half an octave of a batch that was measured.
        """
        deviations = np.zeros((len(self.draws), len(at.nodes)))
        alone = self.evaluate(At(np.ones_like(at.nodes), at.batch, at.payload), model, link)
        for curve, points, _, batches in self._unmeasured_batches(at, model, link):
            apart = np.abs(np.log2(at.batch[points][:, None] / batches))
            octaves = apart.min(axis=1, initial=FAR_OCTAVES)
            shares = self.random_shares(*curve)[:, None]
            deviations[:, points] = shares * alone[points] * octaves / FAR_OCTAVES
        return deviations


def interval_of(drawn: Floats) -> Floats:
    """Return both ends of the 90 % interval of draws, (draws, …): shape (2, …); NaN without any."""
    if not len(drawn):
        return np.full((2, *drawn.shape[1:]), np.nan)
    return np.asarray(np.quantile(drawn, TAILS, axis=0))


def fit(law: Law, points: Points, *, priors: Priors | None = None, draws: int = DRAWS) -> Fit:
    """Fit a law to points of any number of models and links.

    Args:
        law: the law of all of them.
        points: one or more points, with each line's points on any number of nodes.
        priors: what is known of coefficients beforehand, such as a link's latency.
        draws: how many equally likely coefficients; 0 is quicker. The same points give the same.

    Raises:
        ValueError: there is no point.
    """
    if not len(points):
        raise ValueError("nothing to fit")
    problem = Problem(law, points, priors or {})
    theta, noise, weights = problem.solve()
    rng = np.random.default_rng([30917, len(points)])
    drawn = problem.draw(theta, noise, weights, draws, rng)
    return Fit(law, problem.coefficients, theta, drawn, float(noise[0]), problem.sizes, points)


def _labels(at: At, model: ArrayLike, link: ArrayLike) -> tuple[Labels, Labels]:
    shape = at.nodes.shape
    return (
        np.broadcast_to(np.asarray(model, str), shape),
        np.broadcast_to(np.asarray(link, str), shape),
    )


def _never_below_0(values: dict[str, Floats], at: At) -> dict[str, Floats]:
    """Return `values` where no batch is so far below the straight line that it takes no time."""
    if _DEVIATION not in values:
        return values
    line = values["compute_fixed_s"] + values["compute_per_example_s"] * at.batch
    return values | {_DEVIATION: np.maximum(values[_DEVIATION], -line)}

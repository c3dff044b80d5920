"""Fit a law to measurements of many curves together, and predict step times from the fit.

All curves of a link share latency and bandwidth, and all curves of a model share the cost of
computing, so curves borrow strength from each other. The uncertainty of a fit is given by draws,
which are equally likely sets of coefficients. If the points cannot tell coefficients apart, draws
spread over all values that fit, and intervals are as wide.
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
_DEVIATION = "compute_deviation_s"  # deviation of a batch from the line c₀ + c₁·b
FAR_OCTAVES = 0.5
"""Batches further apart than this say nothing about each other's deviation from c₀ + c₁·b."""
_UNCLEAR = 0.15  # a term is not identified if its uncertainty exceeds this share of the step


@dataclass(frozen=True)
class Fit:
    """A law with its fitted coefficients.

    Attributes:
        law: the law.
        coefficients: name and label of each coefficient.
        values: the fitted values, (coefficients,).
        draws: equally likely values, (draws, coefficients).
        noise: relative standard deviation of measured steps around the law.
        sizes: share of the step that each coefficient's term takes at a value of 1, on average over
            the points that depend on it, (coefficients,).
        points: the points that the law was fitted to.
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
        """The index of the coefficient d (deviation from c₀ + c₁·b) of each measured line."""
        return {
            label: i
            for (name, label), i in self._index.items()
            if name == _DEVIATION and isinstance(label, Line)
        }

    def value(self, name: str, label: Label) -> float:
        """Return the value of a coefficient; NaN if the fit has none with this label."""
        i = self._index.get((name, label))
        return float(self.values[i]) if i is not None else np.nan

    def interval(self, name: str, label: Label) -> tuple[float, float]:
        """Return the 90 % interval of a coefficient; NaN if the fit has none with this label."""
        i = self._index.get((name, label))
        if i is None:
            return np.nan, np.nan
        low, high = interval_of(self.draws[:, i]).tolist()
        return low, high

    def identified(self, name: str, label: Label) -> bool:
        """Return whether the points determine a coefficient's term to within ±15 % of a step."""
        i = self._index.get((name, label))
        if i is None:
            return False
        low, high = interval_of(self.draws[:, i]) * self.sizes[i]
        return bool(high - low < 2 * _UNCLEAR)  # false for NaN

    def evaluate(self, at: At, model: ArrayLike = "", link: ArrayLike = "") -> Floats:
        """Return step times in seconds, (points,).

        Args:
            at: where to evaluate, (points,).
            model: label of the model of each point, or one for all.
            link: label of the link of each point, or one for all.
        """
        return self._steps_s(self.values_at(self.values, at, model, link), at)

    def draw(self, at: At, model: ArrayLike = "", link: ArrayLike = "") -> Floats:
        """Return equally likely step times in seconds, (draws, points).

        A batch that was not measured gets a random deviation from c₀ + c₁·b, as large as those of
        the measured batches. The deviation is smaller if a measured batch is near.
        """
        values = self.values_at(self.draws, at, model, link)
        if _DEVIATION in values:
            values[_DEVIATION] = values[_DEVIATION] + self._random_deviations(at, model, link)
        return self._steps_s(_never_below_0(values, at), at)

    def evaluate_interval(
        self, at: At, model: ArrayLike = "", link: ArrayLike = ""
    ) -> tuple[Floats, Floats]:
        """Return both ends of the 90 % interval of the law's step time, (points,) each.

        This is the interval of the law itself, not of another measurement. NaN without draws.
        """
        low, high = interval_of(self.draw(at, model, link))
        return low, high

    def observed_interval(
        self, at: At, model: ArrayLike = "", link: ArrayLike = ""
    ) -> tuple[Floats, Floats]:
        """Return both ends of the 90 % interval of another measurement, (points,) each."""
        drawn = self.draw(at, model, link)
        chance = np.random.default_rng(len(self.points)).standard_t(TAILED, drawn.shape)
        low, high = interval_of(drawn * np.exp(self.noise * chance))
        return low, high

    def random_shares(self, model: str, link: str) -> Floats:
        """Return random deviations from c₀ + c₁·b of batches far from all measured ones, (draws,).

        The deviations are shares of a one-node step. Their standard deviation is the root mean
        square of the fitted deviations. All unmeasured batches of a curve share the same
        deviation in a draw, so that none of them looks fastest by chance.
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
        """Return the value of each parameter at points, (points,) or (draws, points).

        For batches that were not measured, the deviation from c₀ + c₁·b per example is interpolated
        over the logarithm of the batch. Beyond the measured batches it is that of the nearest one.

        Args:
            theta: coefficients, (coefficients,) or (draws, coefficients).
            at: where to evaluate, (points,).
            model: label of the model of each point, or one for all.
            link: label of the link of each point, or one for all.
        """
        rows = coefficient_rows(self.law, self._index, *_labels(at, model, link), at)
        values = gather(self.law, theta, rows)
        if _DEVIATION in values:
            counts = self._interpolated(at, model, link)
            some = counts.any(axis=1)  # skip the lines of other curves
            values[_DEVIATION] = values[_DEVIATION] + theta[..., some] @ counts[some]
        return _never_below_0(values, at)

    def _steps_s(self, values: Mapping[str, Floats], at: At) -> Floats:
        return np.asarray(self.law.step_s(values, at), dtype=np.float64)

    def _unmeasured_batches(
        self, at: At, model: ArrayLike, link: ArrayLike
    ) -> Iterator[tuple[tuple[str, str], NDArray[np.intp], list[int], Floats]]:
        """Yield each curve (model and link) that has points with unmeasured batches.

        Yields:
            The curve, the indices of these points, and the indices of the deviations of its
            measured batches together with these batches, both in ascending order of the batch.
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
        """Return interpolation weights of the measured deviations, (coefficients, points).

        They are 0 at points whose batch was measured.
        """
        counts = np.zeros((len(self.coefficients), len(at.nodes)))
        for _, points, coefficients, batches in self._unmeasured_batches(at, model, link):
            asked = at.batch[points]
            for i, one in zip(coefficients, np.eye(len(batches)), strict=True):
                shares = np.interp(np.log(asked), np.log(batches), one / batches)
                counts[i, points] = shares * asked
        return counts

    def _random_deviations(self, at: At, model: ArrayLike, link: ArrayLike) -> Floats:
        """Return random deviations in seconds for unmeasured batches, (draws, points).

        They shrink within half an octave of a measured batch.
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
    """Return both ends of the 90 % interval of draws (draws, …), as (2, …); NaN without draws."""
    if not len(drawn):
        return np.full((2, *drawn.shape[1:]), np.nan)
    return np.asarray(np.quantile(drawn, TAILS, axis=0))


def fit(law: Law, points: Points, *, priors: Priors | None = None, draws: int = DRAWS) -> Fit:
    """Fit a law to points of any number of models and links.

    Args:
        law: the law, the same for all points.
        points: one or more points. Each line may have any numbers of nodes.
        priors: prior mean and standard deviation of coefficients, such as a link's latency.
        draws: number of equally likely sets of coefficients to draw. 0 is faster. The draws are
            reproducible: the same points give the same draws.

    Raises:
        ValueError: there are no points.
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
    """Return `values` with deviations limited so that computing never takes less than 0 s."""
    if _DEVIATION not in values:
        return values
    line = values["compute_fixed_s"] + values["compute_per_example_s"] * at.batch
    return values | {_DEVIATION: np.maximum(values[_DEVIATION], -line)}

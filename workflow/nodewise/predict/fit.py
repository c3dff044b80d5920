"""Fit a law to measurements of many curves together, and predict step times from the fit.

All curves of a link share latency and bandwidth, and all curves of a model share the cost of
computing, so curves borrow strength from each other.

The fit minimises residuals of logarithms, so that a relative error counts the same for a step of a
millisecond and of a minute. Parts that were measured separately (compute, wait, communicate) are
fitted together with the whole step. What is known beforehand enters as bounds and as further
residuals. Outliers get less weight: residuals are assumed to follow a Student t distribution (K. L.
Lange, R. J. A. Little and J. M. G. Taylor, JASA 84, 1989).

The uncertainty of a fit is given by draws, which are equally likely sets of coefficients. They come
from randomize-then-optimize: each is the bounded least squares solution for data and priors with
random noise added (J. M. Bardsley et al., SIAM J. Sci. Comput. 36, 2014).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares, nnls

from nodewise.core.errors import UserError
from nodewise.core.intervals import INTERVAL
from nodewise.predict.law import Law
from nodewise.predict.points import Floats, Points
from nodewise.results.curves import TIMED_PARTS

TAILS = ((1 - INTERVAL) / 2, (1 + INTERVAL) / 2)
DRAWS = 400
TAILED = 5.0  # degrees of freedom of the t distribution of residuals
_ROUNDS = 2  # how often the coefficients are estimated, and then the noise
_UNCLEAR = 0.15  # a term is not identified if its uncertainty exceeds this share of the step
_TIMES = ("step", *(name.removesuffix("_s") for name in TIMED_PARTS))  # as laws call them
_PART_FLOOR = 0.05  # share of the step below which a part cannot be told from 0
_PART_NOISE = 2.0  # noise of parts relative to that of steps: fewer steps are measured
_NOISE, _NOISE_FREEDOM = 0.05, 3.0  # prior of the noise, and its weight in degrees of freedom
_OPEN = 1.0  # width of the default prior, as a share of the step: bounds unidentified terms
_LEAST = 1e-3  # a law's times are at least this share of the observed time
_AT_BOUND = 1e-6  # the search never quite reaches bounds: coefficients this close are there
_MOVE = 1e-6  # step of finite differences, as a share of the training step

CoefficientKey = tuple[str, str]
"""The name of a parameter, and the label of the model or link that its value belongs to."""


class Prior(NamedTuple):
    """What is known of a coefficient: mean, standard deviation, and the least possible value."""

    mean: float
    spread: float
    least: float = 0.0


Priors = Mapping[CoefficientKey, Prior]


@dataclass(frozen=True)
class Fit:
    """A law with its fitted coefficients.

    Attributes:
        law: the law.
        coefficients: name and label of each coefficient.
        draws: the fitted values, then equally likely ones, (1 + draws, coefficients).
        noise: relative standard deviation of measured steps around the law.
        certain: whether the points determine each coefficient's term to within ±15 % of a step.
        count: number of points that the law was fitted to.
    """

    law: Law
    coefficients: tuple[CoefficientKey, ...]
    draws: Floats
    noise: float
    certain: tuple[bool, ...]
    count: int

    def draw(self, points: Points) -> Floats:
        """Return step times in seconds by the fit, then equally likely ones, (1 + draws, points).

        A model or link without coefficients gets 0.
        """
        padded = np.column_stack([self.draws, np.zeros(len(self.draws))])
        rows = _rows_of(self.law, self.coefficients, points)
        names = (p.name for p in self.law.parameters)
        values = {name: padded[:, row] for name, row in zip(names, rows, strict=True)}
        return self.law.seconds(values, points)["step"]

    def add_noise(self, drawn: Floats) -> Floats:
        """Return equally likely times of another measurement, for what `draw` returned.

        The noise is one common shift per draw, so that a point's interval does not depend on which
        others are asked. The times by the fit stay as they are.
        """
        chance = np.random.default_rng(self.count).standard_t(TAILED, len(drawn) - 1)
        return np.asarray(drawn * np.exp(self.noise * np.append(0, chance))[:, None])


def interval_of(drawn: Floats) -> Floats:
    """Return both ends of the 90 % interval of draws (1 + draws, …), as (2, …).

    The first is the best value and does not count. The ends are NaN without others.
    """
    if len(drawn) == 1:
        return np.full((2, *drawn.shape[1:]), np.nan)
    return np.asarray(np.quantile(drawn[1:], TAILS, axis=0))


def with_interval(drawn: Floats) -> Floats:
    """Return the first of some draws, then both ends of the 90 % interval of the others, (3, …).

    The interval holds the first draw, though a coefficient that is not identified can be 0 in a
    fit, at the edge of the draws.
    """
    ends = np.stack([drawn[0], *interval_of(drawn)])
    return np.stack([drawn[0], ends.min(axis=0), ends.max(axis=0)])


def fit(law: Law, points: Points, *, priors: Priors | None = None, draws: int = DRAWS) -> Fit:
    """Fit a law to points of any number of models and links.

    Args:
        law: the law, the same for all points.
        points: one or more points. Each model may have any numbers of nodes.
        priors: what is known of coefficients, such as the bandwidth of a link.
        draws: number of equally likely sets of coefficients to draw. 0 is faster. The draws are
            reproducible: the same points give the same draws.

    Raises:
        UserError: there is no finite fit. The message names the curves.
    """
    try:
        problem = _Problem(law, points, priors or {})
        y, noise = problem.solve()
        drawn = np.vstack([y, problem.draw(y, noise, draws)])
    except (ValueError, RuntimeError) as error:  # SciPy found numbers not finite, or gave up
        names = ", ".join(np.unique(points.model))
        raise UserError(f"curve {names}: no fit was found; check the times") from error
    low, high = interval_of(drawn * problem.spread)
    return Fit(
        law=law,
        coefficients=problem.coefficients,
        draws=problem.values(drawn),
        noise=float(noise[0]),
        certain=tuple((high - low < 2 * _UNCLEAR).tolist()),
        count=len(points),
    )


class _Problem:
    """The least squares problem of a law and points. Rows: whole steps, then parts.

    Coefficients are shifted and scaled, so that bounds are 0 and priors have unit variance:
    y = (size·value − lower)/spread, where size·value is the share of the step that a term takes.
    """

    def __init__(self, law: Law, points: Points, priors: Priors) -> None:
        self.law, self.points = law, points
        labels = {scope: np.unique(getattr(points, scope)).tolist() for scope in ("model", "link")}
        pairs = [(p, label) for p in law.parameters for label in labels[p.scope]]
        self.coefficients = tuple((p.name, label) for p, label in pairs)
        self.rows = _rows_of(law, self.coefficients, points)
        measured = np.array([points.step_s, *(getattr(points, name) for name in TIMED_PARTS)])
        self.kind, self.point = np.nonzero(np.isfinite(measured))
        self.floor = _PART_FLOOR * points.step_s[self.point] * (self.kind > 0)
        self.observed = measured[self.kind, self.point] + self.floor
        self.sizes = self._find_sizes([p.unit == "1" for p, _ in pairs])
        known = [
            np.array(priors[one]) * size if one in priors else (0.0, p.shrink or _OPEN, 0.0)
            for one, (p, _), size in zip(self.coefficients, pairs, self.sizes, strict=True)
        ]
        mean, self.spread, self.lower = np.array(known).T
        self.mean = (mean - self.lower) / self.spread
        free = sum(p.shrink is None for p, _ in pairs)
        share = max(1 - free / len(self.observed), 0.0)
        self.freedom = share * np.bincount(self.kind, minlength=len(measured))
        noise = points.noise[np.isfinite(points.noise)]
        expected = float(max(np.median(noise), 0.002)) if len(noise) else _NOISE
        self.expected_noise = expected * np.where(np.arange(len(measured)) > 0, _PART_NOISE, 1.0)

    def _find_sizes(self, unitless: list[bool]) -> Floats:
        """Return the share of the step that each coefficient's term takes at a value of 1.

        This is the mean over the points that depend on the coefficient. If none does, points on
        one node count as on two. The derivative is not taken at 0, where products of coefficients
        vanish, but at values that depend on the sizes: hence two rounds.
        """
        at = self.points
        two = Points.of(np.maximum(at.nodes, 2), at.batch, at.payload)
        sizes = np.where(unitless, 1.0, 1 / np.median(at.step_s))
        for points in (two, at, two, at):
            times = self._moved(0.3 / sizes, sizes, points)[0]
            shares = np.abs(times[1:] - times[0]) / _MOVE / at.step_s
            total, touched = (
                np.bincount(self.rows.ravel(), each.ravel(), len(sizes))
                for each in (shares, shares > 0)
            )
            sizes = np.where(total > 0, sizes * total / np.maximum(touched, 1), sizes)
        return sizes

    def _moved(self, values: Floats, sizes: Floats, points: Points) -> Floats:
        """Return times of steps and their parts, then those with each parameter moved in turn.

        A point depends on only one coefficient of each parameter, so all coefficients of a
        parameter are moved at once. The shape is (kinds of times, 1 + parameters, points).
        """
        each = np.arange(len(self.rows))
        moved = np.tile(values[self.rows], (len(each) + 1, 1, 1))
        moved[each + 1, each] += _MOVE / sizes[self.rows]
        by_name = {p.name: moved[:, i] for i, p in enumerate(self.law.parameters)}
        times = self.law.seconds(by_name, points)
        shape = (len(each) + 1, len(points))
        return np.array([np.broadcast_to(times[of], shape) for of in _TIMES])

    def values(self, y: Floats) -> Floats:
        """Return the coefficients, (…, coefficients)."""
        return np.asarray((self.lower + self.spread * y) / self.sizes)

    def _linear(self, y: Floats, noise: Floats) -> tuple[Floats, Floats]:
        """Return residuals of the rows and of the priors in units of noise, and their derivatives.

        The residual of a row is the log of modelled over observed time.
        """
        times = self._moved(self.values(y), self.sizes, self.points)[self.kind, :, self.point].T
        modelled = np.maximum(times[0], _LEAST * (self.observed - self.floor)) + self.floor
        matrix = np.zeros((len(modelled), len(y)))
        rows, noise = self.rows[:, self.point], noise[self.kind]
        slopes = (times[1:] - times[0]) / (_MOVE * modelled * noise)
        matrix[np.arange(len(modelled)), rows] = slopes * self.spread[rows]
        residuals = np.log(modelled / self.observed) / noise
        return np.append(residuals, y - self.mean), np.vstack([matrix, np.eye(len(y))])

    def _loss(self, squares: Floats) -> Floats:
        """Return the losses of squared residuals, and how they grow with these, (3, residuals).

        Rows have the loss of a t distribution, and priors that of a normal one. The second
        derivatives are given as 0, so that each step solves a reweighted least squares problem.
        """
        losses = np.array([squares, np.ones_like(squares), np.zeros_like(squares)])
        if self.freedom.any():
            near = TAILED + squares[: len(self.kind)]
            losses[0, : len(near)] = (TAILED + 1) * np.log(near / TAILED)
            losses[1, : len(near)] = (TAILED + 1) / near
        return losses

    def solve(self) -> tuple[Floats, Floats]:
        """Return the coefficients y and the noise."""
        y, noise = np.maximum(self.mean, 1.0), self.expected_noise
        for _ in range(_ROUNDS):
            y = least_squares(
                lambda *at: self._linear(*at)[0],
                y,
                lambda *at: self._linear(*at)[1],
                bounds=(0, np.inf),
                loss=self._loss,  # type: ignore[arg-type]  # the stubs describe SciPy's own wrapper
                args=(noise,),
            ).x
            noise = self._noise(y)
        return np.where(y < _AT_BOUND, 0.0, y), noise

    def _noise(self, y: Floats) -> Floats:
        """Return the noise of each kind around the law with these coefficients."""
        noise = self.expected_noise
        logs = self._linear(y, np.ones_like(noise))[0][: len(self.kind)]
        for _ in range(10):  # the weights of residuals depend on the noise
            squares = self._loss((logs / noise[self.kind]) ** 2)[1] * logs**2
            total = np.bincount(self.kind, squares, len(noise))
            prior = _NOISE_FREEDOM * self.expected_noise**2
            noise = np.sqrt((total + prior) / (self.freedom + _NOISE_FREEDOM))
        return noise

    def draw(self, y: Floats, noise: Floats, draws: int) -> Floats:
        """Return equally likely y, (draws, coefficients).

        The noise is widened because an observation from a t distribution with ν degrees of freedom
        carries only (ν+1)/(ν+3) of the information that its weight suggests.
        """
        rng = np.random.default_rng([30917, len(self.points)])
        residuals, matrix = self._linear(y, noise)
        weights = self._loss(residuals**2)[1]
        if self.freedom.any():
            weights[: len(self.kind)] *= (TAILED + 1) / (TAILED + 3)
        freedom = self.freedom + _NOISE_FREEDOM
        chance = rng.standard_normal((draws, len(self.kind)))
        chance *= np.sqrt(freedom / rng.chisquare(freedom, (draws, len(freedom))))[:, self.kind]
        chance = np.hstack([chance, rng.standard_normal((draws, len(y)))])
        q, r = np.linalg.qr(matrix * weights[:, None] ** 0.5)
        sides = (chance + (matrix @ y - residuals) * weights**0.5) @ q
        return np.array([nnls(r, side)[0] for side in sides]).reshape(draws, len(y))


def _rows_of(law: Law, coefficients: Sequence[CoefficientKey], points: Points) -> NDArray[np.intp]:
    """Return the index of the coefficient for each parameter and point, (parameters, points).

    An index of −1 means that there is no such coefficient; its value counts as 0.
    """
    index = {coefficient: i for i, coefficient in enumerate(coefficients)}
    rows = []
    for parameter in law.parameters:
        labels, place = np.unique(getattr(points, parameter.scope), return_inverse=True)
        known = [index.get((parameter.name, label), -1) for label in labels.tolist()]
        rows.append(np.array(known, dtype=np.intp)[place])
    return np.array(rows)

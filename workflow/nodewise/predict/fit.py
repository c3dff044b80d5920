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
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares, nnls

from nodewise.core.errors import UserError
from nodewise.core.intervals import INTERVAL
from nodewise.predict.law import Law
from nodewise.predict.points import Floats, Points

TAILS = ((1 - INTERVAL) / 2, (1 + INTERVAL) / 2)
DRAWS = 400
TAILED = 5.0  # degrees of freedom of the t distribution of residuals
_START = 0.5  # sum of the shares with which the search begins
_ROUNDS = 2  # how often the coefficients are estimated, and then the noise
_UNCLEAR = 0.15  # a term is not identified if its uncertainty exceeds this share of the step
PARTS = {"compute_s": "compute", "wait_s": "wait", "communicate_s": "communicate"}
_PART_FLOOR = 0.05  # share of the step below which a part cannot be told from 0
_PART_NOISE = 2.0  # noise of parts relative to that of steps: fewer steps are measured
_NOISE, _NOISE_FREEDOM = 0.05, 3.0  # prior of the noise, and its weight in degrees of freedom
_OPEN = 1.0  # width of the default prior, as a share of the step: bounds unidentified terms
_LEAST = 1e-3  # a law's times are at least this share of the observed time
_MOVE = 1e-6  # step of finite differences, as a share of the training step
_AT_BOUND = 1e-7  # a term this close to its bound, as a share of the step, is at it

Coefficient = tuple[str, str]
"""The name of a parameter, and the label of the model or link that its value belongs to."""


class Prior(NamedTuple):
    """What is known of a coefficient: mean, standard deviation, and the least possible value."""

    mean: float
    spread: float
    least: float = 0.0


Priors = Mapping[Coefficient, Prior]


@dataclass(frozen=True)
class Fit:
    """A law with its fitted coefficients.

    Attributes:
        law: the law.
        coefficients: name and label of each coefficient.
        values: the fitted values, (coefficients,).
        draws: equally likely values, (draws, coefficients).
        noise: relative standard deviation of measured steps around the law.
        certain: whether the points determine each coefficient's term to within ±15 % of a step.
        count: number of points that the law was fitted to.
    """

    law: Law
    coefficients: tuple[Coefficient, ...]
    values: Floats
    draws: Floats
    noise: float
    certain: tuple[bool, ...]
    count: int

    def value(self, name: str, label: str) -> float:
        """Return the value of a coefficient."""
        return float(self.values[self.coefficients.index((name, label))])

    def interval(self, name: str, label: str) -> tuple[float, float]:
        """Return the 90 % interval of a coefficient; NaN without draws."""
        low, high = interval_of(self.draws[:, self.coefficients.index((name, label))]).tolist()
        return low, high

    def values_at(self, theta: Floats, points: Points) -> dict[str, Floats]:
        """Return the value of each parameter at points, (…, points), for θ of (…, coefficients).

        A model or link without coefficients gets 0.
        """
        return _gather(self.law, theta, _rows_of(self.law, self.coefficients, points))

    def evaluate(self, points: Points) -> Floats:
        """Return step times in seconds, (points,)."""
        return self.law.seconds(self.values_at(self.values, points), points)["step"]

    def draw(self, points: Points) -> Floats:
        """Return equally likely step times in seconds by the law, (draws, points)."""
        return self.law.seconds(self.values_at(self.draws, points), points)["step"]

    def add_noise(self, drawn: Floats) -> Floats:
        """Return equally likely times of another measurement, for draws of the law's times."""
        chance = np.random.default_rng(self.count).standard_t(TAILED, drawn.shape)
        return np.asarray(drawn * np.exp(self.noise * chance))


def interval_of(drawn: Floats) -> Floats:
    """Return both ends of the 90 % interval of draws (draws, …), as (2, …); NaN without draws."""
    if not len(drawn):
        return np.full((2, *drawn.shape[1:]), np.nan)
    return np.asarray(np.quantile(drawn, TAILS, axis=0))


def fit(
    law: Law,
    points: Points,
    *,
    priors: Priors | None = None,
    draws: int = DRAWS,
    starts: Sequence[float] = (_START,),
) -> Fit:
    """Fit a law to points of any number of models and links.

    Args:
        law: the law, the same for all points.
        points: one or more points. Each model may have any numbers of nodes.
        priors: what is known of coefficients, such as the bandwidth of a link.
        draws: number of equally likely sets of coefficients to draw. 0 is faster. The draws are
            reproducible: the same points give the same draws.
        starts: sums of all terms' shares of a step with which the search for coefficients begins.
            The best result counts. If only the longer of two terms matters, one may begin too
            short to be seen.

    Raises:
        ValueError: there are no points, or they are not finite.
        UserError: the solver did not converge. The message names the curves.
    """
    if not len(points):
        raise ValueError("nothing to fit")
    axes = (points.nodes, points.batch, points.payload, points.step_s)
    if not np.isfinite(axes).all() or not (points.step_s > 0).all():
        raise ValueError("points need finite axes and step times above 0")
    problem = _Problem(law, points, priors or {})
    try:
        scaled, noise = problem.solve(starts)
        drawn = problem.draw(scaled, noise, draws)
    except (RuntimeError, np.linalg.LinAlgError) as error:
        raise UserError(
            f"curve {', '.join(np.unique(points.model))}: no fit was found "
            f"({str(error).rstrip('.')}); check that its times are right"
        ) from error
    low, high = interval_of(drawn)
    return Fit(
        law=law,
        coefficients=problem.coefficients,
        values=scaled / problem.sizes,
        draws=drawn / problem.sizes,
        noise=float(noise[0]),
        certain=tuple((high - low < 2 * _UNCLEAR).tolist()),
        count=len(points),
    )


class _Problem:
    """The least squares problem of a law and points. Rows: whole steps, then parts, then priors.

    Coefficients are scaled: each is the share of the step that its term takes.
    """

    def __init__(self, law: Law, points: Points, priors: Priors) -> None:
        self.law, self.points = law, points
        self.coefficients = tuple(
            (p.name, label)
            for p in law.parameters
            for label in np.unique(getattr(points, p.scope)).tolist()
        )
        self.rows = _rows_of(law, self.coefficients, points)
        columns = {"step_s": "step"} | (PARTS if "compute" in law.formulas() else {})
        self.masks = {of: np.isfinite(getattr(points, name)) for name, of in columns.items()}
        self.point = np.concatenate([np.flatnonzero(mask) for mask in self.masks.values()])
        observed = [getattr(points, name)[self.masks[of]] for name, of in columns.items()]
        self.kind = np.repeat(np.arange(len(observed)), [len(each) for each in observed])
        self.floor = _PART_FLOOR * points.step_s[self.point] * (self.kind > 0)
        self.observed = np.concatenate(observed) + self.floor
        parameters = {p.name: p for p in law.parameters}
        of_coefficients = [parameters[name] for name, _ in self.coefficients]
        self.sizes = self._find_sizes([p.unit == "1" for p in of_coefficients])
        known = [
            np.array(priors[one]) * size if one in priors else (0.0, p.shrink or _OPEN, 0.0)
            for one, p, size in zip(self.coefficients, of_coefficients, self.sizes, strict=True)
        ]
        self.mean, self.spread, self.lower = np.array(known).T
        free = sum(p.shrink is None for p in of_coefficients)
        share = max(1 - free / len(self.observed), 0.0)
        self.freedom = share * np.bincount(self.kind, minlength=len(observed))
        noise = points.noise[np.isfinite(points.noise)]
        expected = float(max(np.median(noise), 0.002)) if len(noise) else _NOISE
        self.expected_noise = expected * np.where(np.arange(len(observed)) > 0, _PART_NOISE, 1.0)

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
            shares = np.abs(self._slopes(0.3, sizes, points)["step"]) / at.step_s
            total, touched = (
                np.bincount(self.rows.ravel(), each.ravel(), len(sizes))
                for each in (shares, shares > 0)
            )
            sizes = np.where(total > 0, sizes * total / np.maximum(touched, 1), sizes)
        return sizes

    def _slopes(self, scaled: Floats | float, sizes: Floats, points: Points) -> dict[str, Floats]:
        """Return derivatives of times by scaled coefficients, (parameters, points).

        A point depends on only one coefficient of each parameter, so all coefficients of a
        parameter are moved at once, by finite differences.
        """
        count = len(self.rows)
        moved = np.tile((scaled + np.zeros_like(sizes))[self.rows], (count + 1, 1, 1))
        moved[np.arange(count) + 1, np.arange(count)] += _MOVE
        moved /= sizes[self.rows]
        values = {p.name: moved[:, i] for i, p in enumerate(self.law.parameters)}
        times = self.law.seconds(values, points)
        shape = (count + 1, len(points))
        both = {name: np.broadcast_to(times[name], shape) for name in self.masks}
        return {name: (each[1:] - each[0]) / _MOVE for name, each in both.items()}

    def _modelled(self, scaled: Floats) -> Floats:
        """Return the times of observations by the law."""
        values = _gather(self.law, scaled / self.sizes, self.rows)
        times = self.law.seconds(values, self.points)
        modelled = np.concatenate([times[name][mask] for name, mask in self.masks.items()])
        least = _LEAST * (self.observed - self.floor)
        return np.asarray(np.maximum(modelled, least) + self.floor)

    def residuals(self, scaled: Floats, noise: Floats) -> Floats:
        """Return residuals of observations and priors, (rows,)."""
        logs = np.log(self._modelled(scaled) / self.observed)
        return np.concatenate([logs / noise[self.kind], (scaled - self.mean) / self.spread])

    def jacobian(self, scaled: Floats, noise: Floats) -> Floats:
        """Return the derivatives of residuals, (rows, coefficients)."""
        slopes = self._slopes(scaled, self.sizes, self.points)
        slope = np.concatenate([slopes[name][:, m] for name, m in self.masks.items()], axis=1)
        slope /= self._modelled(scaled) * noise[self.kind]
        jacobian = np.zeros((len(self.observed), len(scaled)))
        jacobian[np.arange(len(self.observed)), self.rows[:, self.point]] = slope
        return np.vstack([jacobian, np.diag(1 / self.spread)])

    def solve(self, sums: Sequence[float]) -> tuple[Floats, Floats]:
        """Return the scaled coefficients and the noise; see `fit` for the sums of the starts."""
        noise = self.expected_noise
        starts = [
            np.where(self.mean > 0, self.mean, share / max(1, len(self.law.parameters)))
            for share in sums
        ]
        for _ in range(_ROUNDS):
            scaled, _ = min((self._minimise(start, noise) for start in starts), key=itemgetter(1))
            noise = self._noise(scaled)
            starts = [scaled]
        return scaled, noise

    def _minimise(self, start: Floats, noise: Floats) -> tuple[Floats, float]:
        """Return the scaled coefficients with the least loss near a start, and the loss."""
        found = least_squares(
            self.residuals,
            np.maximum(start, self.lower + _AT_BOUND),
            self.jacobian,
            args=(noise,),
            bounds=(self.lower, np.inf),
            x_scale=self.spread,
            loss=self._loss,  # type: ignore[arg-type]
            xtol=1e-7,
            ftol=1e-8,
            gtol=1e-8,
            max_nfev=200,
        )
        return np.where(found.x - self.lower < _AT_BOUND, self.lower, found.x), found.cost

    def _loss(self, squares: Floats) -> Floats:
        """Return the loss of squared residuals and two derivatives, (3, rows); see scipy.

        It is that of a t distribution for observations, and the square for priors.
        """
        loss = np.array([squares, np.ones_like(squares), np.zeros_like(squares)])
        if self.freedom.any():
            near = TAILED + squares[: len(self.observed)]
            weight = (TAILED + 1) / near
            loss[:, : len(near)] = (TAILED + 1) * np.log(near / TAILED), weight, -weight / near
        return loss

    def _noise(self, scaled: Floats) -> Floats:
        """Return the noise of each kind around the law with these coefficients."""
        noise = self.expected_noise
        logs = np.log(self._modelled(scaled) / self.observed)
        for _ in range(10):  # the weights of residuals depend on the noise
            squares = self._loss((logs / noise[self.kind]) ** 2)[1] * logs**2
            total = np.bincount(self.kind, squares, len(noise))
            prior = _NOISE_FREEDOM * self.expected_noise**2
            noise = np.sqrt((total + prior) / (self.freedom + _NOISE_FREEDOM))
        return noise

    def draw(self, scaled: Floats, noise: Floats, draws: int) -> Floats:
        """Return equally likely scaled coefficients, (draws, coefficients).

        The noise is widened because an observation from a t distribution with ν degrees of freedom
        carries only (ν+1)/(ν+3) of the information that its weight suggests.
        """
        rng = np.random.default_rng([30917, len(self.points)])
        tailed = ((TAILED + 3) / (TAILED + 1)) ** 0.5 if self.freedom.any() else 1.0
        residuals = self.residuals(scaled, tailed * noise)
        matrix = self.jacobian(scaled, tailed * noise)
        count = len(self.observed)
        weight = self._loss((residuals * tailed) ** 2)[1] ** 0.5
        matrix, residuals = matrix * weight[:, None], residuals * weight
        freedom = self.freedom + _NOISE_FREEDOM
        found = np.empty((draws, len(scaled)))
        # the problem in y = (scaled − lower)/spread ≥ 0, reduced to a square matrix
        q, r = np.linalg.qr(matrix * self.spread)
        right = matrix @ (scaled - self.lower) - residuals
        for row in found:
            chance = rng.standard_normal(len(right))
            chance[:count] *= np.sqrt(freedom / rng.chisquare(freedom))[self.kind]
            row[:] = nnls(r, q.T @ (right + chance))[0]
        return np.asarray(self.lower + found * self.spread)


def _rows_of(law: Law, coefficients: Sequence[Coefficient], points: Points) -> NDArray[np.intp]:
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


def _gather(law: Law, theta: Floats, rows: NDArray[np.intp]) -> dict[str, Floats]:
    """Return the values of each parameter at points, (…, points), for θ of (…, coefficients)."""
    padded = np.concatenate([theta, np.zeros((*theta.shape[:-1], 1))], axis=-1)
    return {p.name: padded[..., rows[i]] for i, p in enumerate(law.parameters)}

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

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import least_squares, nnls

from nodewise.core.errors import UserError
from nodewise.core.intervals import INTERVAL
from nodewise.predict.law import At, Floats, Law
from nodewise.predict.parts_law import PartsLaw
from nodewise.predict.points import Label, Labels, Line, Points, lines_of

TAILS = ((1 - INTERVAL) / 2, (1 + INTERVAL) / 2)
DRAWS = 400
ROUNDS = 3
FAR_OCTAVES = 0.5
"""Batches further apart than this say nothing about each other's deviation from c₀ + c₁·b."""
TAILED = 5.0  # degrees of freedom of the t distribution of residuals
_DEVIATION = "compute_deviation_s"  # deviation of a batch from the line c₀ + c₁·b
_UNCLEAR = 0.15  # a term is not identified if its uncertainty exceeds this share of the step
_PARTS = ("compute_s", "wait_s", "communicate_s")
_PART_FLOOR = 0.05  # share of the step below which a part cannot be told from 0
_PART_NOISE = 2.0  # expected noise of parts relative to whole steps: fewer steps are measured
_NOISE, _NOISE_FREEDOM = 0.05, 3.0  # prior of the noise, and its weight in degrees of freedom
_OPEN = 1.0  # width of the default prior, as a share of the step: bounds unidentified terms
_SIGNED = 5.0  # standard deviations that a signed coefficient may lie below its prior
_LEAST = 1e-3  # a law's times are at least this share of the observed time
_AT_BOUND = 1e-7  # a term this close to its bound, as a share of the step, is at it

Coefficient = tuple[str, Label]
"""The name of a parameter, and the label of the model, link or line that its value belongs to."""


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
        low, high = self.interval(name, label)
        return i is not None and bool((high - low) * self.sizes[i] < 2 * _UNCLEAR)

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
            one_node = At(np.ones_like(at.nodes), at.batch, at.payload)
            alone = self.evaluate(one_node, model, link)
            for curve, points, _, batches in self._unmeasured(at, model, link):
                apart = np.abs(np.log2(at.batch[points][:, None] / batches))
                far = apart.min(axis=1, initial=FAR_OCTAVES) / FAR_OCTAVES
                random = self.random_shares(*curve)[:, None] * alone[points] * far
                values[_DEVIATION][:, points] += random
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
        fitted = [i for i, (name, _) in enumerate(self.coefficients) if name == _DEVIATION]
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
        values = _gather(self.law, theta, rows)
        if _DEVIATION in values:
            for _, points, measured, batches in self._unmeasured(at, model, link):
                asked = np.log(at.batch[points])
                for i, one in zip(measured, np.eye(len(batches)), strict=True):
                    weight = np.interp(asked, np.log(batches), one / batches) * at.batch[points]
                    values[_DEVIATION][..., points] += theta[..., i, None] * weight
        return _never_below_0(values, at)

    def _steps_s(self, values: Mapping[str, Floats], at: At) -> Floats:
        return np.asarray(self.law.step_s(values, at), dtype=np.float64)

    def _unmeasured(
        self, at: At, model: ArrayLike, link: ArrayLike
    ) -> list[tuple[tuple[str, str], NDArray[np.intp], list[int], Floats]]:
        """Return each curve that has points with unmeasured batches.

        Returns:
            Per curve its model and link, the indices of these points, and the indices of the
            deviations of its measured batches together with these batches, in ascending order.
        """
        lines, of = lines_of(*_labels(at, model, link), at.batch)
        measured: dict[tuple[str, str], list[tuple[float, int]]] = {}
        for (name, line), i in self._index.items():
            if name == _DEVIATION and isinstance(line, Line):
                measured.setdefault((line.model, line.link), []).append((line.batch, i))
        unknown: dict[tuple[str, str], list[int]] = {}
        for place, line in enumerate(lines):
            if (_DEVIATION, line) not in self._index:
                unknown.setdefault((line.model, line.link), []).append(place)
        found = []
        for curve, places in unknown.items():
            known = sorted(measured.get(curve, []))
            batches = np.array([batch for batch, _ in known], dtype=np.float64)
            found.append(
                (curve, np.flatnonzero(np.isin(of, places)), [i for _, i in known], batches)
            )
        return found


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
    rounds: int = ROUNDS,
) -> Fit:
    """Fit a law to points of any number of models and links.

    Args:
        law: the law, the same for all points.
        points: one or more points. Each line may have any numbers of nodes.
        priors: what is known of coefficients, such as the bandwidth of a link.
        draws: number of equally likely sets of coefficients to draw. 0 is faster. The draws are
            reproducible: the same points give the same draws.
        rounds: how often the coefficients are estimated, and then the noise. With 1 they are those
            of the expected noise, which is faster.

    Raises:
        ValueError: there are no points.
        UserError: the solver did not converge. The message names the curves.
    """
    if not len(points):
        raise ValueError("nothing to fit")
    problem = _Problem(law, points, priors or {})
    try:
        theta, noise = problem.solve(rounds)
        drawn = problem.draw(theta, noise, draws)
    except (RuntimeError, np.linalg.LinAlgError) as error:
        raise UserError(
            f"curve {', '.join(np.unique(points.model))}: no fit was found "
            f"({str(error).rstrip('.')}); check that its times are right"
        ) from error
    return Fit(law, problem.coefficients, theta, drawn, float(noise[0]), problem.sizes, points)


class _Problem:
    """The least squares problem of a law and points. Rows: whole steps, then parts, then priors.

    Kinds of observations have a noise each: kind 0 is the whole step, the others are `_PARTS`.
    """

    def __init__(self, law: Law, points: Points, priors: Priors) -> None:
        self.law, self.points, self.at = law, points, points.at
        self.coefficients = coefficients_of(law, points)
        index = {c: i for i, c in enumerate(self.coefficients)}
        self.rows = coefficient_rows(law, index, points.model, points.link, self.at)
        names = ("step_s", *_PARTS) if isinstance(law, PartsLaw) else ("step_s",)
        self.masks = {name: np.isfinite(getattr(points, name)) for name in names}
        self.point = np.concatenate([np.flatnonzero(mask) for mask in self.masks.values()])
        self.kind = np.repeat(np.arange(len(names)), [m.sum() for m in self.masks.values()])
        self.observed = np.concatenate([getattr(points, name)[m] for name, m in self.masks.items()])
        self.floor = np.where(self.kind > 0, _PART_FLOOR * points.step_s[self.point], 0.0)
        parameters = {p.name: p for p in law.parameters}
        self.parameters = [parameters[name] for name, _ in self.coefficients]
        self.sizes = self._find_sizes()
        self._set_priors(priors)
        free = sum(p.shrink is None for p in self.parameters)
        share = max(len(self.observed) - free, 0) / len(self.observed)
        self.freedom = share * np.bincount(self.kind, minlength=len(names))
        """Residual degrees of freedom of each kind; `shrink` coefficients count as none."""

    def _find_sizes(self) -> Floats:
        """Return the share of the step that each coefficient's term takes at a value of 1.

        This is the mean over the points that depend on the coefficient. If none does, points on
        one node are evaluated on two. The derivative is not taken at 0, where products of
        coefficients vanish, but at values that depend on the sizes: hence two rounds.
        """
        typical = float(np.median(self.points.step_s))
        sizes = np.array([1.0 if p.unit == "1" else 1 / typical for p in self.parameters])
        two = At(np.maximum(self.at.nodes, 2.0), self.at.batch, self.at.payload)
        for _ in range(2):
            means = []
            for at in (self.at, two):
                slopes = self._slopes(0.3 / sizes, sizes, at, ["step_s"])[1][0]
                shares = np.abs(slopes) / self.points.step_s
                total, touched = (
                    np.bincount(self.rows.ravel(), each.ravel(), len(sizes))
                    for each in (shares, shares > 0)
                )
                means.append(total / np.maximum(touched, 1))
            alone, on_two = means
            sizes = np.where(alone > 0, alone, np.where(on_two > 0, on_two, sizes))
        return sizes

    def _slopes(
        self, theta: Floats, sizes: Floats, at: At, names: list[str]
    ) -> tuple[list[Floats], list[Floats]]:
        """Return times (points,) and derivatives (parameters, points) by finite differences.

        A point depends on only one coefficient of each parameter, so all coefficients of a
        parameter are perturbed at once.
        """
        step = (1e-6 / sizes)[self.rows]
        count = len(self.rows)
        perturbed = np.tile(theta[self.rows], (count + 1, 1, 1))
        perturbed[np.arange(count) + 1, np.arange(count)] += step
        values = {p.name: perturbed[:, i] for i, p in enumerate(self.law.parameters)}
        shape = (count + 1, len(at.nodes))
        times = [np.broadcast_to(getattr(self.law, name)(values, at), shape) for name in names]
        return [each[0] for each in times], [(each[1:] - each[0]) / step for each in times]

    def _set_priors(self, priors: Priors) -> None:
        """Set mean, precision and lower bound of each coefficient."""
        shares = [_OPEN if p.shrink is None else p.shrink for p in self.parameters]
        self.precision = self.sizes / np.array(shares)
        self.mean = np.zeros(len(shares))
        self.lower = np.array([-_SIGNED if p.signed else 0.0 for p in self.parameters])
        self.lower /= self.precision
        for i, coefficient in enumerate(self.coefficients):
            if coefficient in priors:
                self.mean[i], spread, self.lower[i] = priors[coefficient]
                self.precision[i] = 1 / spread

    def _linearise(self, theta: Floats, noise: Floats) -> tuple[Floats, Floats]:
        """Return residuals (rows,) and their derivatives (rows, coefficients)."""
        times, slopes = self._slopes(theta, self.sizes, self.at, [*self.masks])
        masks = self.masks.values()
        modelled = np.concatenate([t[m] for t, m in zip(times, masks, strict=True)])
        modelled = np.maximum(modelled, _LEAST * self.observed) + self.floor
        slope = np.concatenate([s[:, m] for s, m in zip(slopes, masks, strict=True)], axis=1)
        deviation = noise[self.kind]
        jacobian = np.zeros((len(self.observed), len(theta)))
        rows = np.arange(len(self.observed))
        for columns, of_parameter in zip(self.rows[:, self.point], slope, strict=True):
            jacobian[rows, columns] = of_parameter / modelled / deviation
        residuals = np.log(modelled / (self.observed + self.floor)) / deviation
        prior = self.precision * (theta - self.mean)
        return (
            np.concatenate([residuals, prior]),
            np.vstack([jacobian, np.diag(self.precision)]),
        )

    def _loss(self, squares: Floats) -> Floats:
        """Return the loss of squared residuals and two derivatives, (3, rows); see scipy.

        It is that of a t distribution for observations, and the square for priors.
        """
        found = np.array([squares, np.ones_like(squares), np.zeros_like(squares)])
        if self.freedom.any():
            some = slice(len(self.observed))  # priors come after them
            near = TAILED + squares[some]
            found[0, some] = (TAILED + 1) * np.log(near / TAILED)
            found[1, some] = (TAILED + 1) / near
            found[2, some] = -(TAILED + 1) / near**2
        return found

    def _expected_noise(self) -> Floats:
        """Return the expected noise of each kind of observation."""
        known = self.points.noise[np.isfinite(self.points.noise)]
        whole = float(max(np.median(known), 0.002)) if len(known) else _NOISE
        return np.array([whole, *[_PART_NOISE * whole] * (len(self.masks) - 1)])

    def _start(self) -> Floats:
        """Return start values: known means, or equal shares of the step for all terms."""
        equal = np.maximum(0.5 / self.sizes / max(1, len(self.law.parameters)), self.lower)
        signed = np.array([p.signed for p in self.parameters])
        start = np.where(self.mean > 0, self.mean, np.where(signed, 0.0, equal))
        return np.maximum(start, self.lower + _AT_BOUND / self.sizes)

    def solve(self, rounds: int) -> tuple[Floats, Floats]:
        """Return the coefficients and the noise of each kind."""
        theta, noise = self._start(), self._expected_noise()
        for _ in range(rounds):
            theta = self._minimise(theta, noise)
            noise = self._noise(theta, noise)
        return theta, noise

    def _noise(self, theta: Floats, noise: Floats) -> Floats:
        """Return the noise of each kind around the law with coefficients θ."""
        logs = self._linearise(theta, noise)[0][: len(self.observed)] * noise[self.kind]
        prior = _NOISE_FREEDOM * self._expected_noise() ** 2
        for _ in range(10):  # the weights of residuals depend on the noise
            squares = self._loss_weights(logs / noise[self.kind]) * logs**2
            found = np.bincount(self.kind, squares, len(noise)) + prior
            noise = np.sqrt(found / (self.freedom + _NOISE_FREEDOM))
        return noise

    def _loss_weights(self, residuals: Floats) -> Floats:
        """Return the weights of observations with these residuals."""
        weights: Floats = self._loss(residuals**2)[1]
        return weights

    def _minimise(self, theta: Floats, noise: Floats) -> Floats:
        """Return the coefficients with the least loss at a noise of each kind, from a start θ."""

        @lru_cache(maxsize=1)
        def linearised(x: bytes) -> tuple[Floats, Floats]:
            """Compute residuals and derivatives of the same coefficients once."""
            return self._linearise(np.frombuffer(x), noise)

        def residuals(x: Floats) -> Floats:
            return linearised(x.tobytes())[0]

        def jacobian(x: Floats) -> Floats:
            return linearised(x.tobytes())[1]

        found: Floats = least_squares(
            residuals,
            np.maximum(theta, self.lower + _AT_BOUND / self.sizes),
            jacobian,
            bounds=(self.lower, np.inf),
            x_scale=1 / self.precision,
            loss=self._loss,  # type: ignore[arg-type]
            xtol=1e-7,
            ftol=1e-8,
            gtol=1e-8,
            max_nfev=200,
        ).x
        near = (found - self.lower) * self.sizes < _AT_BOUND
        return np.where(near, self.lower, found)

    def draw(self, theta: Floats, noise: Floats, draws: int) -> Floats:
        """Return equally likely coefficients, (draws, coefficients).

        The noise is widened because an observation from a t distribution with ν degrees of freedom
        carries only (ν+1)/(ν+3) of the information that its weight suggests.
        """
        rng = np.random.default_rng([30917, len(self.points)])
        tailed = ((TAILED + 3) / (TAILED + 1)) ** 0.5 if self.freedom.any() else 1.0
        residuals, matrix = self._linearise(theta, tailed * noise)
        count = len(self.observed)
        weight = np.ones(len(residuals))
        weight[:count] = self._loss_weights(residuals[:count] * tailed) ** 0.5
        matrix, residuals = matrix * weight[:, None], residuals * weight
        freedom = self.freedom + _NOISE_FREEDOM
        found = np.empty((draws, len(theta)))
        # the problem in y = (θ − lower)·precision ≥ 0, reduced to a square matrix
        q, r = np.linalg.qr(matrix / self.precision)
        right = matrix @ (theta - self.lower) - residuals
        for row in found:
            wider = np.sqrt(freedom / rng.chisquare(freedom))
            chance = rng.standard_normal(len(right))
            chance[:count] *= wider[self.kind]
            row[:] = nnls(r, q.T @ (right + chance))[0]
        drawn: Floats = self.lower + found / self.precision
        return drawn


def coefficients_of(law: Law, points: Points) -> tuple[Coefficient, ...]:
    """Return the coefficients of a law for points: one per parameter and label."""
    lines, _ = points.lines
    return tuple(
        (p.name, label)
        for p in law.parameters
        for label in sorted({line.label(p.scope) for line in lines}, key=str)
    )


def coefficient_rows(
    law: Law, index: Mapping[Coefficient, int], model: Labels, link: Labels, at: At
) -> NDArray[np.intp]:
    """Return the index of the coefficient for each parameter and point, (parameters, points).

    An index of −1 means that there is no such coefficient; its value counts as 0.
    """
    lines, of = lines_of(model, link, at.batch)
    found = [
        [index.get((p.name, line.label(p.scope)), -1) for line in lines] for p in law.parameters
    ]
    return np.array(found, dtype=np.intp)[:, of]


def _gather(law: Law, theta: Floats, rows: NDArray[np.intp]) -> dict[str, Floats]:
    """Return the values of each parameter at points, (…, points), for θ of (…, coefficients)."""
    padded = np.concatenate([theta, np.zeros((*theta.shape[:-1], 1))], axis=-1)
    return {p.name: padded[..., rows[i]] for i, p in enumerate(law.parameters)}


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

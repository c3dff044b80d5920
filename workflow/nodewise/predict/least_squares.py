"""Estimate the coefficients of a law by least squares on logarithms, for many curves together.

With logarithms, a relative error counts the same for a step of a millisecond and of a minute. Parts
that were measured separately (compute, wait, communicate) are fitted together with the whole step.

The noise of a time t is σ·(t + floor): relative, plus a floor for parts near 0. Outliers are not
dropped but get less weight: residuals are assumed to follow a Student t distribution (K. L. Lange,
R. J. A. Little and J. M. G. Taylor, JASA 84, 1989).

Draws come from randomize-then-optimize: each is the bounded least squares solution for data and
priors with random noise added (J. M. Bardsley et al., SIAM J. Sci. Comput. 36, 2014). For a law
that is linear in its coefficients and has no bounds, these are draws from the exact posterior.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.optimize import nnls

from nodewise.core.errors import UserError
from nodewise.predict.law import At, Floats, Law, Mask
from nodewise.predict.parts_law import PartsLaw
from nodewise.predict.points import Label, Labels, Points, lines_of

Coefficient = tuple[str, Label]
"""The name of a parameter, and the label of the model, link or line that its value belongs to."""
Priors = Mapping[Coefficient, tuple[float, float]]
"""Prior mean and standard deviation of coefficients that are known from other sources."""

PARTS = ("compute", "wait", "communicate")
TAILED = 4.0  # degrees of freedom of the t distribution of residuals
_PART_FLOOR = 0.05  # share of the step below which a part cannot be told from 0
_PART_NOISE = 2.0  # expected noise of parts relative to whole steps: fewer steps are measured
_NOISE, _NOISE_FREEDOM = 0.05, 3.0  # prior of the noise, and its weight in degrees of freedom
_OPEN = 1.0  # width of the default prior, as a share of the step: bounds unidentified terms
_OUTER, _INNER, _HALVINGS = 12, 12, 8
_CONVERGED = 1e-6
_LEAST = 1e-3  # a law's times are at least this share of the observed time


class Problem:
    """The least squares problem of a law and points. Rows: whole steps, then parts, then priors."""

    def __init__(self, law: Law, points: Points, priors: Priors) -> None:
        self.law, self.points, self.at = law, points, points.at
        self.coefficients = coefficients_of(law, points)
        self.index = {c: i for i, c in enumerate(self.coefficients)}
        self.rows = coefficient_rows(law, self.index, points.model, points.link, self.at)
        self.observations = _observations(law, points)
        times = [getattr(points, name)[mask] for name, mask in self.observations]
        self.observed = np.concatenate(times)
        self.point = np.concatenate([np.flatnonzero(mask) for _, mask in self.observations])
        self.kind = np.repeat(np.arange(len(times)), [len(each) for each in times])
        whole = np.concatenate([points.step_s[mask] for _, mask in self.observations])
        self.floor = np.where(self.kind > 0, _PART_FLOOR * whole, 0.0)
        named = {p.name: p for p in law.parameters}
        self.parameters = [named[name] for name, _ in self.coefficients]
        self._set_sizes()
        self._set_priors(priors)

    def _times(self, values: Mapping[str, Floats]) -> Floats:
        """Return the law's times for all observations, (…, observations)."""
        shape = next(iter(values.values())).shape
        found: list[Floats] = [
            np.broadcast_to(getattr(self.law, name)(values, self.at), shape)[..., mask]
            for name, mask in self.observations
            if mask.any()
        ]
        return np.concatenate(found, axis=-1)

    def _perturbed(self, theta: Floats) -> tuple[dict[str, Floats], Floats]:
        """Return parameter values at points, unchanged and with each parameter perturbed in turn.

        A point depends on only one coefficient of each parameter, so all coefficients of a
        parameter can be perturbed at once.

        Returns:
            The values, (1 + parameters, points) each, the first row unchanged; and the size of the
            perturbation of each coefficient, (coefficients,).
        """
        step = 1e-6 / self.sizes
        count = len(self.rows)
        perturbed = np.tile(theta[self.rows], (count + 1, 1, 1))
        perturbed[np.arange(count) + 1, np.arange(count)] += step[self.rows]
        return _by_name(self.law, perturbed), step

    def _jacobian(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return the law's times, and their derivatives by θ, from finite differences.

        The times have shape (observations,), the derivatives (observations, coefficients).
        """
        values, step = self._perturbed(theta)
        times, columns = self._times(values), self.rows[:, self.point]
        jacobian = np.zeros((len(self.observed), len(self.coefficients)))
        jacobian[np.arange(len(self.observed)), columns] = (times[1:] - times[0]) / step[columns]
        return times[0], jacobian

    def _set_sizes(self) -> None:
        """Set `sizes`: the share of the step that each coefficient's term takes at a value of 1.

        This is the mean over the points that depend on the coefficient. If none does, points on
        one node are evaluated on two. The derivative is not taken at 0, where products of
        coefficients vanish, but at values that depend on the sizes: hence two rounds.
        """
        typical = float(np.median(self.points.step_s))
        self.sizes = np.array([1.0 if p.unit == "1" else 1 / typical for p in self.parameters])
        two = At(np.maximum(self.at.nodes, 2.0), self.at.batch, self.at.payload)
        for _ in range(2):
            alone, on_two = (self._mean_shares(at) for at in (self.at, two))
            self.sizes = np.where(alone > 0, alone, np.where(on_two > 0, on_two, self.sizes))

    def _mean_shares(self, at: At) -> Floats:
        """Return d step / d θ as a share of the step, averaged over points where it is not 0."""
        values, step = self._perturbed(0.3 / self.sizes)
        steps = np.asarray(self.law.step_s(values, at))
        shares = np.abs(steps[1:] - steps[0]) / step[self.rows] / self.points.step_s
        total, touched = (
            np.bincount(self.rows.ravel(), each.ravel(), len(self.sizes))
            for each in (shares, shares > 0)
        )
        mean: Floats = total / np.maximum(touched, 1)
        return mean

    def _set_priors(self, priors: Priors) -> None:
        """Set the mean and the precision of the prior of each coefficient."""
        shares = [_OPEN if p.shrink is None else p.shrink for p in self.parameters]
        self.precision = self.sizes / np.array(shares)
        self.prior_mean = np.zeros(len(shares))
        for coefficient, (mean, spread) in priors.items():
            if (i := self.index.get(coefficient)) is not None:
                self.prior_mean[i], self.precision[i] = mean, 1 / spread
        self.signed = np.array([p.signed for p in self.parameters])

    def _residuals(self, theta: Floats) -> Floats:
        """Return the residuals of the logarithms of all observations."""
        return self._log_residuals(self._times(gather(self.law, theta, self.rows)))

    def _log_residuals(self, times: Floats) -> Floats:
        times = np.maximum(times, _LEAST * self.observed)
        return np.asarray(np.log((times + self.floor) / (self.observed + self.floor)))

    def _cost(self, theta: Floats, weights: Floats, noise: Floats) -> float:
        prior = self.precision * (theta - self.prior_mean)
        fit = np.sqrt(weights) * self._residuals(theta) / noise[self.kind]
        return float(fit @ fit + prior @ prior)

    def _linearised(self, theta: Floats, weights: Floats, noise: Floats) -> tuple[Floats, Floats]:
        """Return matrix and right-hand side of the least squares problem linearised at θ."""
        modelled, slopes = self._jacobian(theta)
        times = np.maximum(modelled, _LEAST * self.observed)
        sharpness = np.sqrt(weights) / noise[self.kind]
        jacobian = slopes * (sharpness / (times + self.floor))[:, None]
        wanted = jacobian @ theta - sharpness * self._log_residuals(modelled)
        matrix = np.vstack([jacobian, np.diag(self.precision)])
        right = np.concatenate([wanted, self.precision * self.prior_mean])
        return matrix, right

    def _start(self) -> Floats:
        """Return start values.

        These are prior means where they are known, 0 for signed coefficients, and otherwise such
        that all terms are an equal share of the step.
        """
        start = 0.5 / self.sizes / max(1, len(self.law.parameters))
        known = self.prior_mean > 0
        return np.where(known, self.prior_mean, np.where(self.signed, 0.0, start))

    def solve(self) -> tuple[Floats, Floats, Floats]:
        """Return the coefficients, the noise of each kind, and the weight of each observation."""
        theta = self._start()
        weights = np.ones_like(self.observed)
        expected = self._expected_noise()
        noise, freedom = expected, self._degrees_of_freedom()
        for _ in range(_OUTER):
            before = theta
            theta = self._improve(theta, weights, noise)
            squares = self._residuals(theta) ** 2
            found = np.bincount(self.kind, weights * squares, len(noise))
            noise = np.sqrt((found + _NOISE_FREEDOM * expected**2) / (freedom + _NOISE_FREEDOM))
            if freedom.any():
                weights = (TAILED + 1) / (TAILED + squares / noise[self.kind] ** 2)
            if np.max(np.abs(theta - before) * self.sizes) < _CONVERGED:
                break
        return theta, noise, weights

    def _expected_noise(self) -> Floats:
        """Return the expected noise of each kind of observation."""
        known = self.points.noise[np.isfinite(self.points.noise)]
        whole = float(max(np.median(known), 0.002)) if len(known) else _NOISE
        return np.array([whole, *[_PART_NOISE * whole] * len(PARTS)])

    def _degrees_of_freedom(self) -> Floats:
        """Return the residual degrees of freedom of each kind of observation.

        These are the observations minus the coefficients without a `shrink` prior. Kinds share
        this deduction in proportion to their observations.
        """
        free = sum(p.shrink is None for p in self.parameters)
        share = max(len(self.observed) - free, 0) / len(self.observed)
        return np.bincount(self.kind, minlength=1 + len(PARTS)).astype(np.float64) * share

    def _improve(self, theta: Floats, weights: Floats, noise: Floats) -> Floats:
        """Return improved coefficients, by bounded Gauss–Newton with step halving."""
        cost = self._cost(theta, weights, noise)
        for _ in range(_INNER):
            matrix, right = self._linearised(theta, weights, noise)
            towards = self._solve(matrix, right[:, None])[0] - theta
            for halving in range(_HALVINGS):
                step = theta + towards / 2**halving
                lower = self._cost(step, weights, noise)
                if lower < cost:
                    break
            else:
                break
            theta, gain, cost = step, cost - lower, lower
            if gain <= _CONVERGED * (cost + 1):
                break
        return theta

    def draw(
        self, theta: Floats, noise: Floats, weights: Floats, draws: int, rng: np.random.Generator
    ) -> Floats:
        """Return equally likely coefficients, (draws, coefficients).

        The noise is widened because an observation from a t distribution with ν degrees of freedom
        carries only (ν+1)/(ν+3) of the information that its weight suggests.
        """
        tailed = ((TAILED + 3) / (TAILED + 1)) ** 0.5 if self._degrees_of_freedom().any() else 1.0
        matrix, right = self._linearised(theta, weights, tailed * noise)
        freedom = self._degrees_of_freedom() + _NOISE_FREEDOM
        chance = np.empty((len(right), draws))
        for i in range(draws):
            wider = np.sqrt(freedom / rng.chisquare(freedom))
            chance[:, i] = rng.standard_normal(len(right))
            chance[: len(self.observed), i] *= wider[self.kind]
        return self._solve(matrix, right[:, None] + chance)

    def _solve(self, matrix: Floats, right: Floats) -> Floats:
        """Return the coefficients that fit each column of `right`, (columns, coefficients).

        Raises:
            UserError: the solver did not converge. The message names the curves.
        """
        try:
            return least_squares(matrix, right, self.signed)
        except RuntimeError as error:
            curves = ", ".join(np.unique(self.points.model))
            raise UserError(
                f"curve {curves}: no fit was found ({str(error).rstrip('.')}); "
                "check that its times are right"
            ) from error


def least_squares(matrix: Floats, right: Floats, signed: Mask) -> Floats:
    """Minimise |matrix·x − column|² for each column of `right`, with x ≥ 0 where not `signed`.

    Signed coefficients are eliminated by a QR decomposition with their columns first: the lower
    right block of R is then the problem of the other coefficients alone.

    Args:
        matrix: (rows, coefficients), with independent columns.
        right: (rows, columns).
        signed: whether each coefficient may be below 0, (coefficients,).

    Returns:
        x, shape (columns, coefficients).

    Raises:
        RuntimeError: too many iterations.
    """
    order, free = np.argsort(~signed, kind="stable"), int(signed.sum())
    scale = np.linalg.norm(matrix, axis=0)[order]
    q, r = np.linalg.qr(matrix[:, order] / scale)
    wanted = q.T @ right
    x = np.empty((right.shape[1], len(order)))
    if free < len(order):  # nnls crashes without any coefficient
        for row, column in zip(x, wanted[free:].T, strict=True):
            row[order[free:]], _ = nnls(r[free:, free:], column)
    rest = wanted[:free] - r[:free, free:] @ x[:, order[free:]].T
    x[:, order[:free]] = solve_triangular(r[:free, :free], rest).T
    x[:, order] /= scale
    return x


def _observations(law: Law, points: Points) -> list[tuple[str, Mask]]:
    """Return the name of each kind of observation, and a mask of the points that have it.

    Kind 0 is the whole step; kinds 1, 2, … are `PARTS`. Each kind has its own noise.
    """
    names = [f"{part}_s" for part in PARTS] if isinstance(law, PartsLaw) else []
    return [(name, np.isfinite(getattr(points, name))) for name in ("step_s", *names)]


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


def gather(law: Law, theta: Floats, rows: NDArray[np.intp]) -> dict[str, Floats]:
    """Return the values of each parameter at points, (…, points).

    Args:
        law: the law.
        theta: coefficients, (…, coefficients).
        rows: as from `coefficient_rows`, (parameters, points).
    """
    padded = np.concatenate([theta, np.zeros((*theta.shape[:-1], 1))], axis=-1)
    return _by_name(law, padded[..., rows])


def _by_name(law: Law, values: Floats) -> dict[str, Floats]:
    """Split values of shape (…, parameters, points) into a dict by parameter name."""
    return {p.name: values[..., i, :] for i, p in enumerate(law.parameters)}

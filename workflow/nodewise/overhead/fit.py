"""Coefficients of a law from measured step times, with what cannot be known left unknown.

Least squares on the logarithm of the step time: a relative error counts the same for a step of a
millisecond and of a minute. Coefficients are never negative.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import nnls
from scipy.special import stdtrit

from nodewise.overhead.formulas import Floats, Law, Mask

INTERVAL = 0.90
TAILS = ((1 - INTERVAL) / 2, (1 + INTERVAL) / 2)

_ITERATIONS = 50
_HALVINGS = 10
_CONVERGED = 1e-10
_ROUNDING = 1e-12  # a term this small beside every time is what rounding left of 0
_RANK_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Points:
    """Step times to fit: four arrays of shape (points,).

    `step_s` is in seconds and above 0, `payload` in bytes, `batch` in examples per worker.
    """

    nodes: Floats
    batch: Floats
    payload: Floats
    step_s: Floats

    def __post_init__(self) -> None:
        axes = (self.nodes, self.batch, self.payload, self.step_s)
        if len({axis.shape for axis in axes}) != 1 or self.nodes.ndim != 1:
            raise ValueError("points need nodes, batch, payload and step times of one length")
        if not all(np.isfinite(axis).all() for axis in axes) or not (self.step_s > 0).all():
            raise ValueError("points need finite axes and step times above 0")

    def __len__(self) -> int:
        return len(self.nodes)

    def where(self, mask: Mask) -> "Points":
        """Return the points at which `mask`, of shape (points,), is true."""
        return Points(self.nodes[mask], self.batch[mask], self.payload[mask], self.step_s[mask])


@dataclass(frozen=True)
class Fit:
    """A law with coefficients of shape (coefficients,), in the law's order.

    A coefficient is free (fitted), fixed (0, because the points cannot tell it from its pair), or
    unknown (NaN, because nothing in the points depends on it, or because too few points were given
    to know anything). `draws`, of shape (resamples, coefficients), are fits to resampled launches.
    `covariance` and `freedom` (points − free coefficients) belong to the residuals of this fit.
    """

    law: type[Law]
    values: Floats
    free: Mask
    covariance: Floats | None = None
    freedom: int = 0
    draws: Floats | None = None

    @property
    def fixed(self) -> tuple[str, ...]:
        """Names of the coefficients that were fixed at 0."""
        return self._names(~self.free & (self.values == 0))

    @property
    def unknown(self) -> tuple[str, ...]:
        """Names of the coefficients that the points say nothing about."""
        return self._names(np.isnan(self.values))

    def _names(self, mask: Mask) -> tuple[str, ...]:
        return tuple(n for n, hit in zip(self.law.coefficients(), mask, strict=True) if hit)

    def evaluate(self, nodes: Floats, batch: Floats, payload: Floats) -> Floats:
        """Return step times in seconds; NaN wherever an unknown coefficient would matter."""
        return self._times(self.law.design(nodes, batch, payload), self.values)

    def _times(self, design: Floats, values: Floats) -> Floats:
        unknown = np.isnan(values)
        times: Floats = design @ np.where(unknown, 0.0, values)
        return np.where((design[..., unknown] != 0).any(axis=-1), np.nan, times)

    def evaluate_interval(
        self, nodes: Floats, batch: Floats, payload: Floats
    ) -> tuple[Floats, Floats]:
        """Return both ends of the 90 % interval of the law's step time; NaN where there is none.

        It is the interval of the law itself at that point, not that of one more launch.
        """
        design = self.law.design(nodes, batch, payload)
        times = self._times(design, self.values)
        if self.draws is not None:
            drawn = design @ np.nan_to_num(self.draws).T
            low, high = np.quantile(drawn, TAILS, axis=-1)
            return np.where(np.isnan(times), np.nan, low), np.where(np.isnan(times), np.nan, high)
        if self.covariance is None:
            return np.full_like(times, np.nan), np.full_like(times, np.nan)
        # The delta method on the logarithm: the spread of log t is that of t over t.
        spread = np.einsum("...i,ij,...j->...", design, self.covariance, design)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            factor = np.exp(stdtrit(self.freedom, TAILS[1]) * np.sqrt(spread) / times)
            ends = np.stack([times / factor, times * factor])
        low, high = np.where(np.isfinite(ends).all(axis=0), ends, np.nan)  # an end without limit
        return low, high

    def coefficient_interval(self) -> tuple[Floats, Floats]:
        """Return both ends of the 90 % interval of each coefficient; NaN if fixed or unknown."""
        none = np.full_like(self.values, np.nan)
        if self.draws is not None:
            low, high = np.quantile(self.draws, TAILS, axis=0)
        elif self.covariance is not None:
            half = stdtrit(self.freedom, TAILS[1]) * np.sqrt(
                np.maximum(np.diag(self.covariance), 0)
            )
            low, high = np.maximum(self.values - half, 0.0), self.values + half
        else:
            low, high = none, none
        return np.where(self.free, low, none), np.where(self.free, high, none)


def fit(law: type[Law], points: Points) -> Fit:
    """Fit the law to the points: log least squares, coefficients at least 0.

    The covariance is that of Gauss–Newton at the solution, from the residuals; without a point to
    spare there is none. Bounds do not narrow it.

    Args:
        law: the class of the law.
        points: any number of points; too few leave coefficients unknown, none all of them.
    """
    design = law.design(points.nodes, points.batch, points.payload)
    values, free = _split_known(law, design)
    if not free.any():
        return Fit(law, values, free)
    columns = design[:, free]
    values[free] = _solve(columns, points.step_s)
    freedom = len(points) - int(free.sum())
    if freedom == 0:
        return Fit(law, values, free)
    return Fit(law, values, free, _covariance(columns, points.step_s, values, free), freedom)


def resample(
    fitted: Fit,
    points: Points,
    launches: Sequence[Floats],
    resamples: int,
    rng: np.random.Generator,
) -> Fit:
    """Return the fit with `draws`: refits to medians of launches drawn anew at each point.

    A launch is the unit of repetition: its steps are not independent of one another. Few launches
    vary less than the truth does, so each draw's distance (of logarithms) from the mean of its
    point's r launches is stretched by √(r/(r−1)), after Rao and Wu, Resampling inference with
    complex survey data, JASA 83, 1988. The draws know the noise of launches only, not how far the
    law is from the truth.

    Args:
        fitted: what `fit` gave for these points.
        points: as given to `fit`.
        launches: for each point the step times in seconds of its launches, two or more.
        resamples: how many refits.
        rng: the source of chance; the same state gives the same draws.

    Raises:
        ValueError: a point has less than two launches.
    """
    if any(len(times) < 2 for times in launches):
        raise ValueError("a bootstrap over launches needs two launches at every point")
    drawn = np.stack([_draw_medians(times, resamples, rng) for times in launches], axis=-1)
    draws = np.tile(fitted.values, (resamples, 1))
    if fitted.free.any():
        columns = fitted.law.design(points.nodes, points.batch, points.payload)[:, fitted.free]
        draws[:, fitted.free] = [_solve(columns, step_s) for step_s in drawn]
    return replace(fitted, draws=draws)


def _draw_medians(launches: Floats, resamples: int, rng: np.random.Generator) -> Floats:
    """Return medians of drawn launches, shape (resamples,)."""
    logs = np.log(launches)
    drawn = rng.choice(logs, size=(resamples, len(logs)))
    stretch = np.sqrt(len(logs) / (len(logs) - 1))
    medians: Floats = np.exp(np.median(logs.mean() + stretch * (drawn - logs.mean()), axis=1))
    return medians


def _split_known(law: type[Law], design: Floats) -> tuple[Floats, Mask]:
    """Return the coefficients before the fit (0 or NaN), and which of them are to be fitted."""
    names = law.coefficients()
    seen: Mask = np.any(design != 0, axis=0)
    values = np.where(seen, 0.0, np.nan)
    free = seen.copy()
    for fixed, kept in law.pairs:
        pair = [names.index(fixed), names.index(kept)]
        if seen[pair].all() and _rank(design[:, pair]) < 2:
            free[pair[0]] = False
    if _rank(design[:, free]) < free.sum():
        return np.full(len(names), np.nan), np.zeros(len(names), dtype=bool)
    return values, free


def _rank(columns: Floats) -> int:
    """Return the numerical rank, however different the units of the columns."""
    if columns.size == 0:
        return 0
    scale = np.linalg.norm(columns, axis=0)
    return int(np.linalg.matrix_rank(columns / scale, tol=_RANK_TOLERANCE))


def _solve(columns: Floats, step_s: Floats) -> Floats:
    """Minimise the sum of log²(columns @ θ / step_s) over θ ≥ 0.

    Gauss–Newton, each step a non-negative least squares problem, halved while it does not help.
    A bound that holds is met exactly, unlike in interior-point methods. It starts at the least
    squares of the relative error.

    Args:
        columns: shape (points, coefficients), of full rank.
        step_s: shape (points,), above 0.
    """
    scale = np.linalg.norm(columns / step_s[:, None], axis=0)
    scaled = columns / scale
    theta = nnls(scaled / step_s[:, None], np.ones_like(step_s))[0]
    if (scaled @ theta <= 0).any():
        theta = np.full_like(theta, 1 / len(theta))
    cost = _cost(scaled, step_s, theta)
    for _ in range(_ITERATIONS):
        times = scaled @ theta
        towards = nnls(scaled / times[:, None], 1 - np.log(times / step_s))[0] - theta
        for halving in range(_HALVINGS):
            step = theta + towards / 2**halving
            lower = _cost(scaled, step_s, step)
            if lower < cost:
                break
        else:
            break
        theta, gain, cost = step, cost - lower, lower
        if gain <= _CONVERGED * cost:
            break
    solution: Floats = np.where(theta > _ROUNDING, theta, 0.0) / scale
    return solution


def _cost(columns: Floats, step_s: Floats, theta: Floats) -> float:
    times = columns @ theta
    return float(np.sum(np.log(times / step_s) ** 2)) if (times > 0).all() else np.inf


def _covariance(columns: Floats, step_s: Floats, values: Floats, free: Mask) -> Floats:
    """Return the covariance, shape (coefficients, coefficients), 0 where not free."""
    times = columns @ values[free]
    variance = np.sum(np.log(times / step_s) ** 2) / (len(step_s) - int(free.sum()))
    scale = np.linalg.norm(columns, axis=0)
    jacobian = columns / scale / times[:, None]
    inner = variance * np.linalg.inv(jacobian.T @ jacobian) / np.outer(scale, scale)
    covariance = np.zeros((len(values), len(values)))
    covariance[np.ix_(free, free)] = inner
    return covariance

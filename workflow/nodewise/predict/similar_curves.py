"""Predict a scaling curve from its points and from how similar published curves continued.

A simple rule extrapolates the curve. The errors of the same rule on similar published curves
correct it: their smoothed weighted median is added, and their 5 % and 95 % quantiles give the
interval. Errors are of log efficiency per doubling of devices, so intervals widen with distance.
Each example weighs 1/√(examples of its publisher), and more if it is from the publisher of the
curve to predict.

The rules extrapolate from the last two points:

- At a constant batch per device, the slope of log efficiency continues; over several machines, only
  most of it.
- At a constant global batch, the rule is the mean of Amdahl's law and of that slope.
- If the last two points begin with one device, the slope says little, because communication starts
  only there. Within a machine, the law of a ring says how communication grows. At a constant global
  batch, Amdahl's law is used alone.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from nodewise.core.intervals import DEVIATIONS
from nodewise.predict.published_curves import Scaling
from nodewise.results.curves import Floats

NOISE = 0.05
"""Half the width of the 90 % interval of a repeated measurement, on the log scale."""

_COVERAGE = 0.92  # share of held-out examples to cover; a little above the promised 90 %
_TAIL = 0.05
_MIDDLE = (0.4, 0.5, 0.6)
"""The smoothed median is the mean of these quantiles; it depends less on a single example."""

_LEAST_STEP = 0.5  # doublings; shorter steps have the error of measurements
_GROWTH = 0.8  # exponent of errors over distance; 1 would make distant intervals too wide
_EVERYWHERE = 1e-3  # weight of a published curve that is not similar at all
_STEEPEST, _RISING = 2.0, 0.5  # limits per doubling; no published curve falls or rises faster
OWN = 4.0
"""Factor on the weight of examples from the same publisher."""

KINDS = ("ahead", "between", "before", "one")
"""Where a target is: beyond the points, between them, or at fewer devices; `one` if there is only
one point."""
_SLOPE = 0.12  # per doubling; slopes are compared linearly below it, and by their ratio above


@dataclass(frozen=True)
class Settings:
    """Tuned settings; `bench/corpus_nested.py` measures how well the tuning generalises.

    `slope` is the share of the last slope that continues over several machines. `reach` is the
    distance of features at which the weight of an example falls to 0.6.
    """

    slope: float = 0.85
    reach: float = 1.0


USED = Settings()


@dataclass(frozen=True)
class Target:
    """The point to predict: devices, machines, and batch per device."""

    devices: float
    hosts: float
    batch: float


@dataclass(frozen=True)
class Guess:
    """The prediction of a rule: a change of log efficiency from a measured point.

    Attributes:
        kind: one of `KINDS`.
        start: log efficiency of the measured point.
        change: predicted change.
        step: the unit of errors, which grows with the distance from the measured points. It is
            negative for a target of fewer devices than the only point.
        features: coordinates by which similar predictions, with similar errors, are found.
    """

    kind: str
    start: float
    change: float
    step: float
    features: tuple[float, ...]


def guess(curve: Scaling, target: Target, settings: Settings = USED) -> Guess:
    """Predict a target by the simple rule for its kind; see `KINDS`."""
    if len(curve) == 1:
        return _from_one(curve, target)
    if target.devices > curve.devices[-1]:
        return _ahead(curve, target, settings)
    if target.devices < curve.devices[0]:
        return _before(curve, target)
    return _between(curve, target)


def slopes_of(curve: Scaling) -> Floats:
    """Return the slopes of log efficiency per doubling of devices, between neighbouring points."""
    return np.asarray(np.diff(curve.efficiency) / np.diff(np.log2(curve.devices)))


def _bent(slope: float) -> float:
    return float(np.sign(slope) * np.log1p(abs(slope) / _SLOPE))


def _unit(step: float) -> float:
    """Return the unit of errors at a distance of `step` doublings, with the same sign.

    It grows more slowly than the distance. It is 0 at the measured point.
    """
    if not step:
        return 0.0
    return float(np.copysign(max(abs(step), _LEAST_STEP) ** _GROWTH, step))


def _batch_change(curve: Scaling, at: int, target: Target) -> float:
    return 0.0 if curve.strong else float(np.log2(target.batch / curve.batch[at]))


def _ahead(curve: Scaling, target: Target, settings: Settings) -> Guess:
    logs, slopes = np.log2(curve.devices), slopes_of(curve)
    step = float(np.log2(target.devices) - logs[-1])
    change = _change_ahead(curve, target, step, settings)
    change = float(np.clip(change, -_STEEPEST * step, _RISING * step))
    mean = float((curve.efficiency[-1] - curve.efficiency[0]) / (logs[-1] - logs[0]))
    before = slopes[-2] if len(slopes) > 1 else slopes[-1]
    features = (
        _bent(float(slopes[-1])),
        _bent(mean),
        _bent(float(before)) * 0.75,
        _leaves_machine(curve.hosts[-1], target.hosts) / 0.6,
        float(_leaves_machine(curve.hosts[-2], curve.hosts[-1])),
        curve.strong / 0.7,
        float(curve.devices[-2] == 1),
        (curve.hosts[-1] > 1) / 1.5,
        logs[-1] / 3,
        _batch_change(curve, -1, target) / 0.7,
    )
    return Guess("ahead", curve.efficiency[-1], change, _unit(step), features)


def _change_ahead(curve: Scaling, target: Target, step: float, settings: Settings) -> float:
    """Return the change from the last log efficiency over `step` doublings; see the module."""
    slope = float(slopes_of(curve)[-1])
    from_one = curve.devices[-2] == 1
    if curve.strong:
        amdahl = line_change(curve.part(len(curve) - 2, len(curve)), target.devices)
        return amdahl if from_one else (amdahl + slope * step) / 2
    if curve.hosts[-1] > 1 or _leaves_machine(curve.hosts[-1], target.hosts):
        return settings.slope * slope * step
    return _ring_change(curve, target.devices) if from_one else slope * step


def _leaves_machine(hosts: float, later_hosts: float) -> bool:
    return bool(hosts <= 1 < later_hosts)


def line_change(curve: Scaling, devices: float) -> float:
    """Return the change from the last log efficiency, by a straight line of time over devices.

    The time is that of one example per device. At a constant global batch this is Amdahl's law.
    """
    times = np.exp(curve.efficiency[-1] - curve.efficiency)
    slope, fixed = np.polyfit(curve.devices, times, 1)
    time = fixed + slope * devices
    return float(-np.log(time)) if time > 0 else 0.0


def _ring_change(curve: Scaling, devices: float) -> float:
    """Return the change from the last point by the law of a ring; the point before has one device.

    In a ring of n devices, communication grows like (n − 1)/n. The last point's additional time
    over one device is scaled accordingly.
    """
    known = float(curve.devices[-1])
    one = float(np.exp(curve.efficiency[-1] - curve.efficiency[-2]))  # relative to the last point
    time = one + (1 - one) * (1 - 1 / devices) / (1 - 1 / known)
    return float(-np.log(time)) if time > 0 else 0.0


def _from_one(curve: Scaling, target: Target) -> Guess:
    logs = np.log2([curve.devices[0], target.devices])
    crosses = (curve.hosts[0] > 1) != (target.hosts > 1)
    features = (
        curve.strong / 0.3,
        crosses / 0.6,
        float(min(curve.hosts[0], target.hosts) > 1),
        float(min(logs)) / 2,
        _batch_change(curve, 0, target) * np.sign(logs[1] - logs[0]),
    )
    return Guess("one", curve.efficiency[0], 0.0, _unit(float(logs[1] - logs[0])), features)


def _before(curve: Scaling, target: Target) -> Guess:
    step = float(np.log2(curve.devices[0] / target.devices))
    slope = float(slopes_of(curve)[0])
    features = (_bent(slope), curve.strong / 0.7, (target.devices == 1) / 1.0)
    return Guess("before", curve.efficiency[0], -slope * step, _unit(step), features)


def _between(curve: Scaling, target: Target) -> Guess:
    logs, at = np.log2(curve.devices), np.log2(target.devices)
    value = float(np.interp(at, logs, curve.efficiency))
    right = int(np.clip(np.searchsorted(logs, at), 1, len(logs) - 1))
    gap = float(logs[right] - logs[right - 1])
    inside = float((at - logs[right - 1]) * (logs[right] - at)) / gap
    features = (_bent(float(slopes_of(curve)[right - 1])), curve.strong / 0.7, gap / 2)
    return Guess("between", value, 0.0, 2 * inside, features)


@dataclass(frozen=True)
class Examples:
    """Errors of a rule on published curves, per unit of its step, with features and weights."""

    features: Floats
    errors: Floats
    weights: Floats
    publishers: NDArray[np.str_]

    def quantiles(
        self,
        features: Floats,
        weights: Floats,
        reach: float = USED.reach,
        shares: Sequence[float] = (_TAIL, 1 - _TAIL),
    ) -> tuple[Floats, Floats]:
        """Return smoothed medians and other quantiles of the errors of similar examples.

        Args:
            features: features of the guesses, (guesses, features).
            weights: weights of the examples, (examples,) or (guesses, examples).
            reach: see `Settings`.
            shares: the other quantiles.

        Returns:
            The medians, (guesses,), and the other quantiles, (shares, guesses).
        """
        apart = cdist(features, self.features, "sqeuclidean")
        weights = weights * (np.exp(-apart / (2 * reach**2)) + _EVERYWHERE)
        order = np.argsort(self.errors)
        sums = np.cumsum(weights[:, order], axis=1)
        asked = [*_MIDDLE, *shares]
        last = len(order) - 1
        found = [
            np.minimum(np.searchsorted(row, np.multiply(asked, row[-1])), last) for row in sums
        ]
        errors = self.errors[order][np.array(found)].T
        return errors[: len(_MIDDLE)].mean(axis=0), errors[len(_MIDDLE) :]

    def weights_for(self, publisher: str) -> Floats:
        """Return the weights of the examples for predicting a curve of a publisher."""
        return self.weights * np.where(self.publishers == publisher, OWN, 1.0)

    @cached_property
    def factor(self) -> float:
        """The factor by which intervals are widened to cover examples of held-out publishers.

        This is conformal prediction with publishers as units (Vovk et al., Algorithmic Learning in
        a Random World, 2005). It is at least 1.
        """
        if len(set(self.publishers)) < 2:
            return 1.0
        others = self.publishers[None] != self.publishers[:, None]
        mid, (low, high) = self.quantiles(self.features, self.weights * others)
        off = self.errors - mid
        ratio = np.abs(off) / np.maximum(np.where(off < 0, mid - low, high - mid), 1e-3)
        order = np.argsort(ratio)
        shares = np.cumsum(self.weights[order]) / self.weights.sum()
        return max(1.0, float(ratio[order][np.searchsorted(shares, _COVERAGE)]))


class SimilarCurves:
    """A predictor of scaling curves from similar ones. It learns in less than a second.

    Args:
        curves: the curves to learn from, with all points that may be used.
    """

    def __init__(self, curves: Iterable[Scaling]) -> None:
        found: dict[str, list[tuple[str, Guess, float]]] = {}
        for curve in curves:
            for made, truth in examples_of(curve):
                if made.step:
                    found.setdefault(made.kind, []).append((curve.publisher, made, truth))
        self._examples = {kind: table_of(rows) for kind, rows in found.items()}

    def predict(self, curve: Scaling, targets: Sequence[Target]) -> Floats:
        """Return log efficiencies at targets and the ends of their 90 % intervals, (3, targets).

        The intervals are those of another measurement.
        """
        value, ends = self._continue(curve, targets, dict.fromkeys(KINDS, (_TAIL, 1 - _TAIL)))
        low, high = np.sort(ends, axis=0)
        below, above = (np.hypot(np.maximum(end, 0.0), NOISE) for end in (-low, high))
        return np.array([value, value - below, value + above])

    def widening(self, curve: Scaling, edge: Target, targets: Sequence[Target]) -> Floats:
        """Return how much wider the interval at each target is than at `edge`, (targets,).

        The widths are those of log efficiency on each side, and they are subtracted as variances.
        """
        _, low, high = self.predict(curve, [edge, *targets])
        width = (high - low) / 2
        return np.asarray(np.sqrt(np.maximum(width[1:] ** 2 - width[0] ** 2, 0.0)))

    def draw(self, curve: Scaling, targets: Sequence[Target], draws: int) -> tuple[Floats, Floats]:
        """Return log efficiencies at targets, (targets,), and draws of them, (draws, targets).

        A draw takes the same quantile of errors at all targets of one kind (ahead of the points,
        between them, and so on). Quantiles of different kinds are independent. The noise of the
        measured points is one common shift per draw.
        """
        rng = np.random.default_rng([len(curve), draws])
        shares = (np.arange(draws) + 0.5) / draws
        value, ends = self._continue(
            curve, targets, {kind: rng.permutation(shares).tolist() for kind in KINDS}
        )
        off = rng.normal(scale=NOISE / DEVIATIONS, size=(draws, 1))
        return value, value + ends + off

    def _continue(
        self, curve: Scaling, targets: Sequence[Target], shares: Mapping[str, Sequence[float]]
    ) -> tuple[Floats, Floats]:
        """Return log efficiencies at targets, (targets,), and deviations, (shares, targets).

        A deviation is the error quantile of a share, relative to the median. `shares` has the
        quantiles of each kind.
        """
        made = [guess(curve, target) for target in targets]
        value = np.array([each.start + each.change for each in made])
        off = np.zeros((len(shares["ahead"]), len(made)))
        for kind in {each.kind for each in made}:
            at = [i for i, each in enumerate(made) if each.kind == kind]
            known, step = self._examples[kind], np.array([made[i].step for i in at])
            features = np.array([made[i].features for i in at])
            middle, ends = known.quantiles(
                features, known.weights_for(curve.publisher), shares=shares[kind]
            )
            middle = middle * (kind != "between")
            value[at] += middle * step
            off[:, at] = known.factor * step * (ends - middle)
        return value, off


def examples_of(curve: Scaling, settings: Settings = USED) -> list[tuple[Guess, float]]:
    """Return predictions of points of a curve from other points, with true log efficiencies."""
    targets = [
        (Target(*at), truth)
        for *at, truth in zip(
            curve.devices, curve.hosts, curve.batch, curve.efficiency, strict=True
        )
    ]
    size = len(curve)
    asked = [(curve.part(0, 1), target) for target in targets[1:]]
    asked += [(curve.part(size - 1, size), target) for target in targets[:-1]]
    for cut in range(2, size):
        asked += [(curve.part(0, cut), target) for target in targets[cut:]]
        asked += [(curve.part(size - cut, size), target) for target in targets[: size - cut]]
    for inner in range(1, size - 1):
        asked.append((curve.at([inner - 1, inner + 1]), targets[inner]))
    return [(guess(part, target, settings), truth) for part, (target, truth) in asked]


def table_of(rows: list[tuple[str, Guess, float]]) -> Examples:
    """Return examples of one kind from rows of publisher, guess and true log efficiency."""
    publishers = [publisher for publisher, _, _ in rows]
    counts = Counter(publishers)
    return Examples(
        features=np.array([made.features for _, made, _ in rows]),
        errors=np.array([(truth - m.start - m.change) / m.step for _, m, truth in rows]),
        weights=np.array([counts[publisher] ** -0.5 for publisher in publishers]),
        publishers=np.array(publishers),
    )

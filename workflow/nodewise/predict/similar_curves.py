"""Predict a scaling curve from its points and from how published curves of the same kind went on.

A simple rule continues the curve. The errors of the same rule on published curves of the same kind
say how far such curves bent away from it, and how much they scattered: their weighted median is
added, and their quantiles give the interval. Errors are of log efficiency per doubling of devices,
so intervals widen with distance.

The rules, for numbers of devices beyond the measured ones:

- At a constant global batch (strong scaling): Amdahl's law through the last two points.
- At a constant batch per device: the slope of log efficiency between the last two points
  continues. Over several machines only `SLOPE_SHARE` of it does. If the last two points are one
  device and several devices of the same machine, the law of a ring continues instead, because
  communication only starts there.
"""

from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

import numpy as np

from nodewise.core.intervals import DEVIATIONS
from nodewise.predict.fit import interval_of
from nodewise.predict.published_curves import Scaling, read_published
from nodewise.results.curves import Floats

NOISE = 0.05
"""Half the width of the 90 % interval of a repeated measurement, on the log scale."""
SLOPE_SHARE = 0.85
OWN = 4.0
"""Factor on the weight of curves from the same publisher."""
_MIDDLE = (0.4, 0.5, 0.6)  # the mean of these quantiles depends less on a single curve
_WIDER = 1.2  # curves of new publishers scatter more; checked by bench/corpus.py
_LEAST_STEP = 0.5  # doublings; shorter steps have the error of measurements
_GROWTH = 0.8  # exponent of errors over doublings
_STEEPEST, _RISING = 2.0, 0.5  # limits per doubling; no published curve falls or rises faster


class Guess(NamedTuple):
    """The prediction of a rule.

    Attributes:
        place: where the target is: `ahead` of the points, `between` or `before` them, or `one` if
            there is only one point.
        kind: predictions of one place and kind have similar errors.
        value: log efficiency.
        unit: the unit of errors. It grows with the distance from the points and is 0 at a point. It
            is negative for a target of fewer devices than the only point.
    """

    place: str
    kind: str
    value: float
    unit: float


def guess(curve: Scaling, devices: float, hosts: float) -> Guess:
    """Predict the log efficiency on `devices` in `hosts` machines by the rule of its kind."""
    logs, target = np.log2(curve.devices), float(np.log2(devices))
    scaling = "strong" if curve.strong else "weak"
    first, last = float(target - logs[0]), float(target - logs[-1])
    if len(curve) == 1:
        crosses = "crosses" if (curve.hosts[0] > 1) != (hosts > 1) else ""
        return Guess("one", f"{scaling} {crosses}", curve.efficiency[0], _unit(first))
    slopes = slopes_of(curve)
    if last > 0:
        kind, change = _ahead(curve, devices, hosts)
        change = float(np.clip(change, -_STEEPEST * last, _RISING * last))
        return Guess("ahead", kind, float(curve.efficiency[-1] + change), _unit(last))
    if first < 0:
        return Guess(
            "before", scaling, float(curve.efficiency[0] + slopes[0] * first), _unit(-first)
        )
    right = int(np.clip(np.searchsorted(logs, target), 1, len(logs) - 1))
    inside = (target - logs[right - 1]) * (logs[right] - target) / (logs[right] - logs[right - 1])
    value = float(np.interp(target, logs, curve.efficiency))
    return Guess("between", scaling, value, 2 * float(inside))


def slopes_of(curve: Scaling) -> Floats:
    """Return the slopes of log efficiency per doubling of devices, between neighbouring points."""
    return np.asarray(np.diff(curve.efficiency) / np.diff(np.log2(curve.devices)))


def line_change(curve: Scaling, devices: float) -> float:
    """Return the change from the last log efficiency, by a straight line of time over devices.

    The time is that of one example per device. At a constant global batch this is Amdahl's law.
    """
    times = np.exp(curve.efficiency[-1] - curve.efficiency)
    slope, fixed = np.polyfit(curve.devices, times, 1)
    time = fixed + slope * devices
    return float(-np.log(time)) if time > 0 else 0.0


def _unit(step: float) -> float:
    return float(np.copysign(max(abs(step), _LEAST_STEP) ** _GROWTH, step)) if step else 0.0


def _ahead(curve: Scaling, devices: float, hosts: float) -> tuple[str, float]:
    """Return the kind of a target ahead, and the change from the last log efficiency."""
    change = float(slopes_of(curve)[-1] * np.log2(devices / curve.devices[-1]))
    if curve.strong:
        return "strong", line_change(curve.at([-2, -1]), devices)
    if hosts > 1:
        leaves = curve.hosts[-1] <= 1
        return "leaves a machine" if leaves else "several machines", SLOPE_SHARE * change
    from_one = curve.devices[-2] == 1
    return "in a machine", _ring_change(curve, devices) if from_one else change


def _ring_change(curve: Scaling, devices: float) -> float:
    """Return the change from the last point by the law of a ring; the point before has one device.

    In a ring of n devices, communication grows like (n − 1)/n. The last point's additional time
    over one device is scaled accordingly.
    """
    known = float(curve.devices[-1])
    one = float(np.exp(curve.efficiency[-1] - curve.efficiency[-2]))  # relative to the last point
    time = one + (1 - one) * (1 - 1 / devices) / (1 - 1 / known)
    return float(-np.log(time)) if time > 0 else 0.0


class SimilarCurves:
    """A predictor of scaling curves from published ones. It learns in less than a second.

    Each error weighs 1/√(errors of its publisher).

    Args:
        curves: the curves to learn from, with all points that may be used.
    """

    def __init__(self, curves: Iterable[Scaling]) -> None:
        found: dict[tuple[str, str], list[tuple[float, str]]] = {}
        for curve in curves:
            for made, truth in _examples(curve):
                if made.unit:
                    error = (truth - made.value) / made.unit, curve.publisher
                    found.setdefault((made.place, made.kind), []).append(error)
        self._errors = {}
        for key, rows in found.items():
            errors, publishers = zip(*sorted(rows), strict=True)
            counts = Counter(publishers)
            weights = [counts[one] ** -0.5 for one in publishers]
            self._errors[key] = np.array(errors), np.array(publishers), np.array(weights)

    def predict(self, curve: Scaling, devices: Floats, hosts: Floats) -> Floats:
        """Return log efficiencies and the ends of their 90 % intervals, (3, targets).

        The intervals are those of another measurement. The arguments are those of `draw`.
        """
        value, drawn = self.draw(curve, devices, hosts, _DRAWS)
        return np.vstack([value, interval_of(drawn)])

    def draw(
        self, curve: Scaling, devices: Floats, hosts: Floats, draws: int
    ) -> tuple[Floats, Floats]:
        """Return log efficiencies at targets, (targets,), and draws of them, (draws, targets).

        A draw takes the same quantile of errors at all targets of one place (ahead of the points,
        between them, and so on). Quantiles of different places are independent. The noise of the
        measured points is one common shift per draw.

        Args:
            curve: the known points.
            devices: numbers of devices to predict, (targets,).
            hosts: numbers of machines, (targets,).
            draws: how many draws.
        """
        rng = np.random.default_rng([len(curve), draws])
        shares = {place: rng.permutation((np.arange(draws) + 0.5) / draws) for place in _PLACES}
        value, off = np.zeros(len(devices)), np.zeros((draws, len(devices)))
        for i, (n, machines) in enumerate(zip(devices, hosts, strict=True)):
            made = guess(curve, float(n), float(machines))
            value[i] = made.value
            if not made.unit:
                continue
            errors, middle = self._quantiles(made, curve.publisher, shares[made.place])
            value[i] += middle * made.unit * (made.place != "between")
            off[:, i] = _WIDER * (errors - middle) * made.unit
            # no device is faster than measured, and none is slower among fewer devices
            if made.unit > 0 and made.place != "before":
                value[i] = min(value[i], curve.efficiency.max())
                off[:, i] = np.minimum(off[:, i], curve.efficiency.max() + NOISE - value[i])
            else:
                value[i] = max(value[i], curve.efficiency[0])
                off[:, i] = np.maximum(off[:, i], curve.efficiency[0] - NOISE - value[i])
        return value, value + off + rng.normal(scale=NOISE / DEVIATIONS, size=(draws, 1))

    def _quantiles(self, made: Guess, publisher: str, shares: Floats) -> tuple[Floats, float]:
        """Return weighted quantiles of the errors of guesses of this kind, and their middle."""
        errors, publishers, weights = self._errors[made.place, made.kind]
        sums = np.cumsum(np.where(publishers == publisher, OWN * weights, weights))
        at = np.searchsorted(sums, np.append(shares, _MIDDLE) * sums[-1])
        found = errors[np.minimum(at, len(errors) - 1)]
        return found[: len(shares)], float(found[len(shares) :].mean())


_PLACES = ("ahead", "between", "before", "one")
_DRAWS = 400


@cache
def published_alone() -> SimilarCurves:
    """Return the predictor that has learned from all published curves."""
    return SimilarCurves(read_published())


def _examples(curve: Scaling) -> list[tuple[Guess, float]]:
    """Return predictions of points of a curve from other points, with true log efficiencies."""
    size = len(curve)
    known: list[tuple[Scaling, Iterable[int]]] = [
        (curve.at(slice(cut)), range(cut, size)) for cut in range(1, size)
    ]
    known += [(curve.at(slice(cut, None)), range(cut)) for cut in range(1, size)]
    known += [(curve.at([inner - 1, inner + 1]), [inner]) for inner in range(1, size - 1)]
    return [
        (guess(part, curve.devices[i], curve.hosts[i]), float(curve.efficiency[i]))
        for part, targets in known
        for i in targets
    ]

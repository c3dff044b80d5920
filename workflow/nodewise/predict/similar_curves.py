"""Predict a scaling curve from its points and from how published curves of the same kind went on.

A simple rule continues the curve. The errors of the same rule on published curves of the same kind
say how far such curves bent away from it, and how much they scattered: their weighted median is
added, and their quantiles give the interval. Errors are of log efficiency per doubling of devices,
so intervals widen with distance.

The rules, for numbers of devices beyond the measured ones:

- At a constant global batch (strong scaling): Amdahl's law through the last two points.
- At a constant batch per device: the slope of log efficiency between the last two points
  continues if it falls; over several machines, `SLOPE_SHARE` of it. If these points are one
  device and several devices of the same machine, the law of a ring continues instead, because
  communication only starts there.

The published curves are in `data/published/curves/scaling_curves.csv`. Each row has the address of
its source.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
import pandas as pd

from nodewise.core.intervals import DEVIATIONS
from nodewise.predict.fit import DRAWS
from nodewise.results.curves import Curve, Floats
from nodewise.results.importers import import_curves
from nodewise.results.studies import FOLDER

PUBLISHED = FOLDER / "curves/scaling_curves.csv"
NOISE = 0.05
"""Half the width of the 90 % interval of a repeated measurement, on the log scale."""
SLOPE_SHARE = 0.85
OWN = 4.0
"""Factor on the weight of curves from the same publisher."""
_WIDER = 1.2  # curves of new publishers scatter more; checked by bench/corpus.py
_LEAST_STEP = 0.5  # doublings; shorter steps have the error of measurements


@dataclass(frozen=True)
class Line:
    """Points of a curve, in ascending order of devices. Arrays have shape (points,).

    Attributes:
        devices: numbers of devices.
        hosts: number of machines that the devices are in.
        efficiency: log of examples per second and device, in any unit; only differences matter.
        strong: whether the global batch is the same at all points (strong scaling).
        publisher: who published the curve.
    """

    devices: Floats
    hosts: Floats
    efficiency: Floats
    strong: bool
    publisher: str = ""

    def at(self, chosen: slice | list[int]) -> "Line":
        """Return the points at these positions."""
        arrays = {name: getattr(self, name)[chosen] for name in ("devices", "hosts", "efficiency")}
        return replace(self, **arrays)

    @cached_property
    def errors(self) -> list[tuple[str, float, str]]:
        """The errors of predicting points of the curve from others: kind, error and publisher."""
        size, found = len(self.devices), []
        known = [(self.at(slice(cut)), range(cut, size)) for cut in range(1, size)]
        known += [(self.at(slice(cut, None)), range(cut)) for cut in range(1, size)]
        known += [(self.at([i - 1, i + 1]), range(i, i + 1)) for i in range(1, size - 1)]
        for part, targets in known:
            for i in targets:
                kind, value, unit = guess(part, self.devices[i], self.hosts[i])
                found.append((kind, float(self.efficiency[i] - value) / unit, self.publisher))
        return found


def line_of(curve: Curve, batch: float | None = None) -> Line | None:
    """Return the points of a curve, or those with a batch per device.

    None if several have the same number of devices.
    """
    chosen = [point for point in curve.measured if batch in (None, point.batch_per_worker)]
    points = sorted(chosen, key=lambda point: point.nodes)
    if len({point.nodes for point in points}) < len(points):
        return None
    return Line(
        devices=np.array([point.nodes for point in points], float),
        hosts=np.array([hosts_of(curve, point.nodes, point.hosts) for point in points]),
        efficiency=np.log([point.batch_per_worker / point.step_time_s for point in points]),
        strong=curve.shares_batch,
        publisher=curve.publisher,
    )


def hosts_of(curve: Curve, devices: float, hosts: float | None) -> float:
    """Return the number of machines: as given, or as many as needed if machines are full."""
    return float(hosts or np.ceil(devices / curve.per_host))


@cache
def read_published() -> tuple[Line, ...]:
    """Return the points of all published curves."""
    lines = map(line_of, import_curves(PUBLISHED).curves)
    return tuple(line for line in lines if line is not None)


def guess(line: Line, devices: float, hosts: float) -> tuple[str, float, float]:
    """Predict the log efficiency on `devices` in `hosts` machines by a simple rule.

    Returns:
        The kind of prediction: those of one kind have similar errors. The log efficiency. The unit
        of errors: it grows with the distance from the points and is 0 at a point.
    """
    logs, target = np.log2(line.devices), float(np.log2(devices))
    scaling = "strong" if line.strong else "weak"
    right = int(np.searchsorted(logs, target, side="right"))  # the first point beyond the target
    if right == 0:
        slope = np.diff(line.efficiency[:2])[0] / np.diff(logs[:2])[0] if len(logs) > 1 else 0.0
        value = float(line.efficiency[0] - slope * (logs[0] - target))
        return f"{scaling} before", value, max(logs[0] - target, _LEAST_STEP)
    step = float(target - logs[right - 1])
    if step == 0 or right < len(logs):
        value = float(np.interp(target, logs, line.efficiency))
        inside = step * (logs[right] - target) / (logs[right] - logs[right - 1]) if step else 0.0
        return f"{scaling} between", value, 2 * float(inside)
    if len(logs) == 1:
        return f"{scaling} one", float(line.efficiency[0]), max(step, _LEAST_STEP)
    counts = np.array([*line.devices[-2:], devices])
    if line.strong:
        kind, change = "strong", _continued(line, counts)
    elif hosts <= 1 and counts[0] == 1:
        # each device of a ring of n sends (n − 1)/n of the gradient, twice
        kind, change = "in a machine", _continued(line, -1 / counts)
    else:
        before, beyond = np.diff(np.log2(counts))
        kind, change = "in a machine", np.diff(line.efficiency[-2:])[0] * beyond / before
        if hosts > 1:
            kind = "leaves a machine" if line.hosts[-1] <= 1 else "several machines"
            change *= SLOPE_SHARE
        change = min(change, 0.0)
    return kind, float(line.efficiency[-1] + change), max(step, _LEAST_STEP)


def _continued(line: Line, x: Floats) -> float:
    """Return the change of log efficiency if the time of an example per device is linear in x.

    The values of x are those at the last two points and at the target, (3,).
    """
    before = np.exp(line.efficiency[-1] - line.efficiency[-2])  # the time, relative to the last
    time = 1 + (1 - before) * (x[2] - x[1]) / (x[1] - x[0])
    return float(-np.log(time)) if time > 0 else 0.0


class SimilarCurves:
    """A predictor of scaling curves that learns from `lines`, in less than a second.

    Each error weighs 1/√(errors of its publisher).
    """

    def __init__(self, lines: Iterable[Line]) -> None:
        errors = [error for line in lines for error in line.errors]
        found = pd.DataFrame(errors, columns=["kind", "error", "publisher"])
        count = found.groupby(["kind", "publisher"])["error"].transform("size")
        self._errors = dict(iter(found.assign(weight=count**-0.5).groupby("kind")))

    def draw(self, line: Line, devices: Floats, hosts: Floats) -> Floats:
        """Return log efficiencies at targets, then draws of them, (1 + draws, targets).

        A draw takes the same quantile of errors at all targets. The noise of the measured points is
        one common shift per draw. The targets are numbers of devices in so many hosts, (targets,).
        """
        rng = np.random.default_rng([len(line.devices), DRAWS])
        shares = rng.permutation((np.arange(DRAWS) + 0.5) / DRAWS)
        found = np.zeros((1 + DRAWS, len(devices)))
        errors: dict[str, Floats] = {}  # the median and the quantiles of each kind
        for i, (n, machines) in enumerate(zip(devices, hosts, strict=True)):
            kind, value, unit = guess(line, float(n), float(machines))
            found[:, i] = value
            if unit:
                if kind not in errors:
                    errors[kind] = self._quantiles(kind, line.publisher, [0.5, *shares])
                middle = errors[kind][0]
                least, most = -np.inf, line.efficiency.max()  # no device is faster than measured
                if "before" in kind:  # fewer are not slower each, and not faster together
                    least = line.efficiency[0]
                    most = least + np.log(line.devices[0] / n)
                usual = 0.0 if "between" in kind else middle * unit
                value = float(np.clip(value + usual, least, most))
                drawn = value + _WIDER * unit * (errors[kind] - middle)
                found[:, i] = np.clip(drawn, least - NOISE, most + NOISE)
        found[1:] += rng.normal(scale=NOISE / DEVIATIONS, size=(DRAWS, 1))
        return found

    def _quantiles(self, kind: str, publisher: str, shares: list[float]) -> Floats:
        """Return quantiles of the errors of a kind; those of the publisher weigh more."""
        known = self._errors[kind]
        weights = known["weight"] * np.where(known["publisher"] == publisher, OWN, 1.0)
        found = np.quantile(known["error"], shares, weights=weights, method="inverted_cdf")
        return np.asarray(found)

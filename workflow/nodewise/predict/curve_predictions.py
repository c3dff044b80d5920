"""Predict curves of a fit.json, by their law or by comparison with similar published curves.

A curve with a unit is of the same kind as published curves. It is predicted from similar curves if
the batch per device, or the global batch, stays as in the measurements. All other predictions
follow the fitted law. Beyond twice the most measured nodes, intervals of the law are widened by as
much as those of published curves widen from there on.
"""

from collections.abc import Iterable, Sequence
from functools import cache, cached_property

import numpy as np

from nodewise.core.intervals import DEVIATIONS
from nodewise.predict.fit import DRAWS
from nodewise.predict.fit_file import FitFile
from nodewise.predict.law import At, Floats
from nodewise.predict.optimum import FAR, StepTimes, times_of
from nodewise.predict.published_curves import Scaling, hosts_of, read_published, scaling_of
from nodewise.predict.question import Question
from nodewise.predict.similar_curves import NOISE, SimilarCurves
from nodewise.results.curves import Curve

_LEAST_S = 1e-12


class CurvePredictions:
    """Step times of the curves of a fit.json, in seconds or in the curve's own unit of time.

    Args:
        file: the curves, and the fits of their laws.
    """

    def __init__(self, file: FitFile) -> None:
        self._file = file
        self._published: dict[str, Scaling] = {}
        for curve in file.curves:
            if curve.unit and (points := scaling_of(curve)) is not None:
                self._published[curve.name] = points

    @cached_property
    def _similar(self) -> SimilarCurves:
        mine = self._published.values()
        return SimilarCurves([*read_published(), *mine]) if mine else _published_alone()

    def continues(self, curve: Curve, nodes: Floats, batch: Floats) -> bool:
        """Return whether a curve is predicted from similar curves; arguments as in `evaluate`."""
        return curve.name in self._published and np.allclose(batch, batch_of(curve, nodes))

    def observed(
        self, curve: Curve, nodes: Floats, batch: Floats, hosts: Sequence[float | None]
    ) -> Floats:
        """Return step times and the 90 % intervals of another measurement, (3, points).

        Unlike in `evaluate`, a curve of the kind that is published is predicted from similar curves
        at any batch, as if the time of an example did not depend on it. How steps grow with the
        batch is unknown beyond the measured batches, and as far on as these are apart. There the
        interval also holds the other extreme: a step time that does not depend on the batch.

        Args:
            curve: one of the file.
            nodes: the numbers of nodes, (points,).
            batch: the examples per node and step, (points,).
            hosts: the numbers of machines, None where unknown.
        """
        if curve.name in self._published:
            machines = _hosts(curve, nodes, hosts)
            efficiency = self._similar.predict(self._published[curve.name], nodes, machines)
            value, slow, fast = batch / np.exp(efficiency)
            seen = _batches_to_compare(curve)
            factor = batch_factor(curve, nodes, batch, max(seen) / min(seen))
            return np.array([value, fast / np.maximum(factor, 1), slow / np.minimum(factor, 1)])
        fitted, at = self._file.fit_of(curve), At.of(nodes, batch, curve.payload)
        step_s = np.maximum(fitted.evaluate(at, curve.name, curve.link), _LEAST_S)
        ends = fitted.observed_interval(at, curve.name, curve.link)
        wider = np.exp(self._widening(curve, nodes))
        low, high = np.minimum(ends[0] / wider, step_s), np.maximum(ends[1] * wider, step_s)
        return np.maximum([step_s, low, high], _LEAST_S)

    def evaluate(self, curve: Curve, nodes: Floats, batch: Floats) -> Floats:
        """Return step times, (points,).

        Args:
            curve: one of the file.
            nodes: the numbers of nodes, (points,).
            batch: the examples per node and step, (points,).
        """
        if self.continues(curve, nodes, batch):
            return self._continued(curve, nodes, batch, 0)[0]
        at = At.of(nodes, batch, curve.payload)
        return self._file.fit_of(curve).evaluate(at, curve.name, curve.link)

    def draw(self, curve: Curve, nodes: Floats, batch: Floats) -> Floats:
        """Return equally likely step times, (draws, points); arguments as in `evaluate`."""
        if self.continues(curve, nodes, batch):
            return self._continued(curve, nodes, batch, DRAWS)[1]
        at = At.of(nodes, batch, curve.payload)
        drawn = self._file.fit_of(curve).draw(at, curve.name, curve.link)
        chance = np.random.default_rng(len(drawn)).standard_normal((len(drawn), 1))
        return drawn * np.exp(chance * self._widening(curve, nodes) / DEVIATIONS)

    def _continued(
        self, curve: Curve, nodes: Floats, batch: Floats, draws: int
    ) -> tuple[Floats, Floats]:
        machines = _hosts(curve, nodes, [None] * len(nodes))
        value, drawn = self._similar.draw(self._published[curve.name], nodes, machines, draws)
        return np.asarray(batch / np.exp(value)), np.asarray(batch / np.exp(drawn))

    def noise(self, curve: Curve) -> float:
        """Return the relative standard deviation of another measurement of a curve."""
        if curve.name in self._published:
            return NOISE / DEVIATIONS
        return self._file.fit_of(curve).noise

    def times(self, curve: Curve, question: Question, nodes: Iterable[int]) -> StepTimes:
        """Return the step times that answer a question about a curve; see `optimum.times_of`.

        Raises:
            ValueError: the points do not determine the step time of one node or of these batches.
        """
        points = self._file.fit_of(curve).points
        return times_of(
            question,
            nodes,
            payload=curve.payload,
            points=points.where(points.model == curve.name),
            evaluate=lambda at: self.evaluate(curve, at.nodes, at.batch),
            draw=lambda at: self.draw(curve, at.nodes, at.batch),
        )

    def _widening(self, curve: Curve, nodes: Floats) -> Floats:
        """Return how much the interval of log time widens on each side, (points,).

        It is 0 up to twice the most measured nodes.
        """
        edge = FAR * max(curve.nodes)
        found = np.zeros(len(nodes))
        far = nodes > edge
        points = _longest_line(curve)
        if not far.any() or points is None:
            return found
        found[far] = self._similar.widening(points, edge, nodes[far], curve.per_host)
        return found


@cache
def _published_alone() -> SimilarCurves:
    return SimilarCurves(read_published())


def candidates(curve: Curve, nodes: Iterable[int]) -> list[int]:
    """Return the numbers of nodes that fill their machines, fit in one machine, or were measured.

    If there are none, all numbers are returned.
    """
    in_host, asked = curve.per_host, list(nodes)
    full = [n for n in asked if n <= in_host or n % in_host == 0 or n in curve.nodes]
    return full or asked


def batch_of(curve: Curve, nodes: Floats) -> Floats:
    """Return the batch per node for numbers of nodes, if the curve's own scaling continues."""
    last = max(curve.measured, key=lambda point: (point.nodes, point.batch_per_worker))
    if _shares_a_batch(curve):
        return np.asarray(last.batch_per_worker * last.nodes / nodes)
    return np.full(np.shape(nodes), last.batch_per_worker)


def batch_factor(curve: Curve, nodes: Floats, batch: Floats, margin: float) -> Floats:
    """Return how many times batches are the nearest one in the measured range, (points,).

    Args:
        curve: the curve.
        nodes: the numbers of nodes, (points,).
        batch: the examples per node and step, (points,).
        margin: factor by which the range is widened on both sides.
    """
    seen = _batches_to_compare(curve)
    asked = batch * nodes if curve.scaling == "strong" else batch
    return np.asarray(asked / np.clip(asked, min(seen) / margin, max(seen) * margin))


def _batches_to_compare(curve: Curve) -> list[float]:
    """Return the measured batches: global ones with strong scaling, else those per node."""
    strong = curve.scaling == "strong"
    return [point.batch_per_worker * (point.nodes if strong else 1) for point in curve.measured]


def _shares_a_batch(curve: Curve) -> bool:
    """Return whether the global batch is the same for all numbers of nodes (strong scaling)."""
    return curve.scaling == "strong" or curve.global_batch is not None


def _hosts(curve: Curve, nodes: Floats, hosts: Sequence[float | None]) -> Floats:
    return np.array([hosts_of(curve, n, h) for n, h in zip(nodes, hosts, strict=True)])


def _longest_line(curve: Curve) -> Scaling | None:
    """Return the points that have the same batch as the point on the most nodes.

    The batch is the global batch if all points share one, else the batch per node. Returns None if
    there are several points on one number of nodes.
    """
    if _shares_a_batch(curve):
        return scaling_of(curve)
    batch = float(batch_of(curve, np.ones(1))[0])
    mine = tuple(point for point in curve.measured if point.batch_per_worker == batch)
    return scaling_of(curve.model_copy(update={"measured": mine}))

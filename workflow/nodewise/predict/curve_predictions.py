"""What is predicted of a curve of a fit.json: as similar published curves went on, or by its law.

Curves of a file with units are of the kind that is published. They go on as similar ones did, as
long as the same stays the same as in the measurements: the batch of a device, or that of all. All
else follows the law that was fitted. Beyond twice the most nodes that were measured, its intervals
widen by as much as those of published curves do from there.
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
from nodewise.predict.similar_curves import NOISE, SimilarCurves, Target
from nodewise.results.curves import Curve

_LEAST_S = 1e-12


class CurvePredictions:
    """Step times of the curves of a fit.json, in seconds or in the time that the curve has.

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
        """Tell whether a curve goes on as published ones did; arguments as in `evaluate`."""
        return curve.name in self._published and np.allclose(batch, batch_of(curve, nodes))

    def observed(
        self, curve: Curve, nodes: Floats, batch: Floats, hosts: Sequence[float | None]
    ) -> Floats:
        """Return step times, and the ends of the 90 % intervals of one more measurement: rows.

        A curve of the kind that is published goes on as such at any batch. Other arguments are as
        in `evaluate`; `hosts` are numbers of machines where they are known.
        """
        if curve.name in self._published:
            targets = _targets(curve, nodes, batch, hosts)
            efficiency = self._similar.predict(self._published[curve.name], targets)
            return np.asarray(batch / np.exp(efficiency))
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
        targets = _targets(curve, nodes, batch, [None] * len(nodes))
        value, drawn = self._similar.draw(self._published[curve.name], targets, draws)
        return np.asarray(batch / np.exp(value)), np.asarray(batch / np.exp(drawn))

    def noise(self, curve: Curve) -> float:
        """Return the relative standard deviation of one more measurement of a curve."""
        if curve.name in self._published:
            return NOISE / DEVIATIONS
        return self._file.fit_of(curve).noise

    def times(self, curve: Curve, question: Question, nodes: Iterable[int]) -> StepTimes:
        """Return what answers a question about a curve; see `optimum.times_of`.

        Raises:
            ValueError: the points say too little of one node or of the batches.
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
        """Return by how much intervals of a law widen, of the log to each end, (points,)."""
        edge = FAR * max(curve.nodes)
        found = np.zeros(len(nodes))
        far = nodes > edge
        points = _longest_line(curve)
        if not far.any() or points is None:
            return found
        asked = np.array([edge, *nodes[far]])
        targets = _targets(curve, asked, batch_of(curve, asked), [None] * len(asked))
        _, low, high = self._similar.predict(points, targets)
        width = (high - low) / 2
        found[far] = np.sqrt(np.maximum(width[1:] ** 2 - width[0] ** 2, 0.0))
        return found


@cache
def _published_alone() -> SimilarCurves:
    return SimilarCurves(read_published())


def candidates(curve: Curve, nodes: Iterable[int]) -> list[int]:
    """Return the numbers of nodes that fill their machines, or fit in one, or were measured.

    All are returned if none does.
    """
    in_host, asked = curve.per_host, list(nodes)
    full = [n for n in asked if n <= in_host or n % in_host == 0 or n in curve.nodes]
    return full or asked


def batch_of(curve: Curve, nodes: Floats) -> Floats:
    """Return the batch per node on numbers of nodes, as the curve's own scaling says."""
    last = max(curve.measured, key=lambda point: (point.nodes, point.batch_per_worker))
    if _shares_a_batch(curve):
        return np.asarray(last.batch_per_worker * last.nodes / nodes)
    return np.full(np.shape(nodes), last.batch_per_worker)


def _shares_a_batch(curve: Curve) -> bool:
    """Tell whether all numbers of nodes share one global batch."""
    return curve.scaling == "strong" or curve.global_batch is not None


def _targets(
    curve: Curve, nodes: Floats, batch: Floats, hosts: Sequence[float | None]
) -> list[Target]:
    return [
        Target(float(n), hosts_of(curve, n, h), float(b))
        for n, b, h in zip(nodes, batch, hosts, strict=True)
    ]


def _longest_line(curve: Curve) -> Scaling | None:
    """Return the points that reach farthest, of one batch per node or of one global batch."""
    if _shares_a_batch(curve):
        return scaling_of(curve)
    batch = float(batch_of(curve, np.ones(1))[0])
    mine = tuple(point for point in curve.measured if point.batch_per_worker == batch)
    return scaling_of(curve.model_copy(update={"measured": mine}))

"""Predict step times of curves, by their law or by comparison with similar published curves.

A curve of which no more is known than of published ones, neither the size of its gradient nor parts
of its steps, is predicted from similar published curves. All other predictions follow the fitted
law. Beyond the most measured nodes, intervals of the law are widened by as much as those of
published curves widen from there on.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from nodewise.core.errors import UserError
from nodewise.core.intervals import DEVIATIONS
from nodewise.predict.answers import FAR, Answers, TrainingJob, check_amount, with_best_batch
from nodewise.predict.fit import Fit, with_interval
from nodewise.predict.fit_file import FitFile
from nodewise.predict.points import Floats, Points
from nodewise.predict.similar_curves import (
    NOISE,
    SimilarCurves,
    hosts_of,
    line_of,
    read_published,
)
from nodewise.results.curves import Curve


class CurvePredictions:
    """Step times of curves with fits by name, in seconds or in the curve's own unit of time."""

    def __init__(self, curves: Iterable[Curve], fits: Mapping[str, Fit]) -> None:
        self._fits = fits
        lines = {curve.name: line_of(curve) for curve in curves if curve.like_published}
        self._published = {name: line for name, line in lines.items() if line is not None}

    @cached_property
    def _similar(self) -> SimilarCurves:
        return SimilarCurves([*read_published(), *self._published.values()])

    def answer(
        self,
        curve: Curve,
        nodes: Iterable[int],
        job: TrainingJob,
        *,
        batch: float | None = None,
        global_batch: float | None = None,
    ) -> Answers:
        """Return the answers about a job on numbers of nodes. One node is always among them.

        A step has `batch` examples per node, or `global_batch` of all nodes. Then numbers with less
        than an example for each node are left out.
        """
        counts = np.unique(np.array([1, *nodes], dtype=np.float64))
        counts = counts[counts <= (global_batch or np.inf)]
        batches = np.full_like(counts, batch) if batch else (global_batch or 0.0) / counts
        unit_s = 1.0 if curve.in_seconds else 1 / (job.examples or 1.0)
        steps = self.steps(curve, counts, batches)
        # No node is more efficient than alone, unless it was measured so. Far beyond, it may be.
        beyond = np.clip(np.log(counts / curve.nodes[-1]) / np.log(FAR), 0, 1)
        least = batches * steps[:, :1] / batches[0] / most_efficient(curve)
        least[0] *= most_efficient(curve) ** beyond
        kinds = [is_within(curve, counts, batches, margin) for margin in (1.0, FAR)]
        kind = np.select(kinds, ["fitted", "predicted"], "extrapolated")
        of_law = curve.name not in self._published
        noise = self._fits[curve.name].noise if of_law else NOISE / DEVIATIONS
        step_s, most = np.maximum(steps, least) * unit_s, curve.nodes[-1]
        compared = len(curve.nodes) > 1
        return Answers(job, counts, batches, step_s, kind, most, noise, compared=compared)

    def steps(
        self,
        curve: Curve,
        nodes: Floats,
        batch: Floats,
        hosts: Sequence[float | None] | None = None,
    ) -> Floats:
        """Return step times by the prediction, then equally likely ones, (1 + draws, points).

        A curve of the kind that is published is predicted from similar curves if it keeps its
        batch, or if `hosts` is given. How steps grow with the batch is then unknown beyond the
        measured batches, and as far on as these are apart. There, one half of the draws assumes
        that the time of an example does not depend on the batch, the other half that the time of a
        step does not.

        The nodes and batches per node have shape (points,). `hosts` are the numbers of machines,
        None where unknown.
        """
        kept = hosts is not None or np.allclose(batch, batch_of(curve, nodes))
        if kept and curve.name in self._published:
            known = self._published[curve.name]
            given = hosts or [None] * len(nodes)
            machines = np.array([hosts_of(curve, n, h) for n, h in zip(nodes, given, strict=True)])
            drawn = self._similar.draw(known, nodes, machines)
            seen = _batches_to_compare(curve)
            factor = batch_factor(curve, nodes, batch, max(seen) / min(seen))
            drawn[2::2] += np.log(factor)  # in every second draw, steps do not depend on the batch
            return np.asarray(batch / np.exp(drawn))
        fitted = self._fits[curve.name]
        drawn, alone = (
            fitted.draw(Points.of(n, batch, curve.payload, model=curve.name, link=curve.link))
            for n in (nodes, np.ones_like(nodes))
        )
        draws = len(drawn) - 1
        chance = np.append(0, np.random.default_rng(draws).standard_normal(draws))[:, None]
        wider = drawn * np.exp(chance * self._widening(curve, nodes) / DEVIATIONS)
        # a wider interval must not make a step faster than on one node
        return np.asarray(np.maximum(wider, np.minimum(drawn, alone)))

    def observed(
        self, curve: Curve, nodes: Floats, batch: Floats, hosts: Sequence[float | None]
    ) -> Floats:
        """Return equally likely times of another measurement; as `steps`, with its noise."""
        steps = self.steps(curve, nodes, batch, hosts)
        return steps if curve.name in self._published else self._fits[curve.name].add_noise(steps)

    def _widening(self, curve: Curve, nodes: Floats) -> Floats:
        """Return how much the interval of log time widens on each side, (points,).

        It widens as much as the intervals of similar published curves do from the most measured
        nodes on: the difference of their widths, as variances. They are compared with the points of
        the batch that was measured there.
        """
        batch = None if curve.shares_batch else float(batch_of(curve, np.ones(1))[0])
        points = line_of(curve, batch)
        if points is None or nodes.max() <= curve.nodes[-1]:
            return np.zeros(len(nodes))
        asked = np.maximum([curve.nodes[-1], *nodes], curve.nodes[-1])
        drawn = self._similar.draw(points, asked, np.ceil(asked / curve.per_host))
        _, low, high = with_interval(drawn)
        variance = ((high - low) / 2) ** 2
        return np.asarray(np.sqrt(np.maximum(variance[1:] - variance[0], 0.0)))


def find_answers(
    file: FitFile,
    nodes: Sequence[int],
    job: TrainingJob,
    *,
    batch: float | None = None,
    global_batch: float | None = None,
    batches: Sequence[float] = (),
    whole_machines: bool = False,
) -> Iterator[tuple[Curve, Answers]]:
    """Yield the answers for each curve and batch. One node is always among those answered.

    A step has `batch` examples per node, or `global_batch` of all nodes, or the best of several
    `batches` for each number of nodes. By default, it has what was measured: the global batch that
    all points of a curve share, or each batch per node. With `whole_machines`, numbers that do not
    fill their machines are left out.

    Raises:
        UserError: an option is missing or not allowed, or no curve has an example for each of so
            many nodes.
    """
    for name, value in (("batch", batch), ("global_batch", global_batch)):
        check_amount(name, value)
    asked = {"--batch": batch, "--global-batch": global_batch, "--batches": batches}
    if len(given := [name for name, value in asked.items() if value]) > 1:
        raise UserError(f"{' and '.join(given)}: give one of them")
    chosen = batches or ([] if batch is None else [batch])
    predictions = CurvePredictions(file.curves, file.fit_by_curve)
    found = False
    for curve in file.curves:
        if given and not curve.batch_known:
            raise UserError(f"curve {curve.name}: {given[0]} means nothing, as it has no batches")
        inside, counts = curve.per_host, nodes
        if whole_machines:
            full = [n for n in nodes if n <= inside or n % inside == 0 or n in curve.nodes]
            counts = full or nodes
        shared = global_batch or (None if chosen else curve.global_batch)
        if min(counts) > (shared or np.inf):
            continue
        found = True
        answer = partial(predictions.answer, curve, counts, job.of_curve(curve))
        if shared:
            yield curve, answer(global_batch=shared)
        elif chosen:
            yield curve, with_best_batch([answer(batch=each) for each in chosen])
        else:
            for each in curve.batches:
                yield curve, answer(batch=each)
    if not found:
        raise UserError(f"--nodes {min(nodes)}: is more than the examples of the global batch")


def is_within(curve: Curve, nodes: Floats, batch: Floats, margin: float) -> NDArray[np.bool_]:
    """Return whether points are in the measured range, (points,).

    The range is widened by the factor `margin` on all sides.
    """
    inside = (nodes >= curve.nodes[0] / margin) & (nodes <= curve.nodes[-1] * margin)
    return np.asarray(inside & np.isclose(batch_factor(curve, nodes, batch, margin), 1))


def most_efficient(curve: Curve) -> float:
    """Return the highest measured efficiency against one node at the same batch, at least 1."""
    rates = [point.batch_per_worker / point.step_time_s for point in curve.measured]
    points = list(zip(curve.measured, _batches_to_compare(curve), rates, strict=True))
    alone = {round(batch, 6): rate for point, batch, rate in points if point.nodes == 1}
    return max(1.0, *(rate / alone.get(round(batch, 6), np.inf) for _, batch, rate in points))


def batch_of(curve: Curve, nodes: Floats) -> Floats:
    """Return the batch per node for numbers of nodes, if the curve's own scaling continues."""
    last = max(curve.measured, key=lambda point: (point.nodes, point.batch_per_worker))
    if curve.shares_batch:
        return np.asarray((curve.global_batch or last.batch_per_worker * last.nodes) / nodes)
    return np.full(np.shape(nodes), last.batch_per_worker)


def batch_factor(curve: Curve, nodes: Floats, batch: Floats, margin: float) -> Floats:
    """Return how many times batches are the nearest one in the measured range, (points,).

    The range is widened by the factor `margin` on both sides.
    """
    seen = _batches_to_compare(curve)
    asked = batch * nodes if curve.shares_batch else batch
    return np.asarray(asked / np.clip(asked, min(seen) / margin, max(seen) * margin))


def _batches_to_compare(curve: Curve) -> list[float]:
    """Return the measured batches: global ones if they are shared, else those per node."""
    shared = curve.shares_batch
    return [point.batch_per_worker * (point.nodes if shared else 1) for point in curve.measured]

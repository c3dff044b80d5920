"""Find the best number of nodes for an objective, with the probability of each number.

The fitted law is evaluated at every number of nodes, with the fitted coefficients and with all
draws. Minima are flat and points are few, so the answer is not one number: it is the probability
that k nodes are best, and all numbers within 5 % of the best. If the law has no best number, the
answer says so.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nodewise.predict.fit import TAILS, Fit, interval_of
from nodewise.predict.law import At, Floats
from nodewise.predict.points import Points
from nodewise.predict.question import Counts, Question

MOST_SURE = 0.95
"""The highest probability of an answer where nothing was measured: the law may not hold there."""
FAR = 2
"""Predictions beyond this multiple of the most measured nodes count as extrapolation."""
_FAR_POINTS = 300
_ROUNDING = 1e-9
_TIMED = 0.5  # least share of draws whose step times are above 0 at all numbers of nodes


@dataclass(frozen=True)
class Optimum:
    """The answer to a question. Arrays have shape (points,), one point per number of nodes.

    Attributes:
        question: the question.
        nodes: the compared numbers of nodes, ascending from 1.
        value: the objective by the fit, in `question.unit`.
        low, high: ends of the 90 % interval of `value`.
        probability: probability that this number is the best of those compared, from the draws.
            With a deadline, the rest up to 1 is the probability that none of them meets it.
        beats_one: probability that this number does better than one node.
        best: the best number of nodes by the fit; see also `late`.
        near: the numbers of nodes whose value is within 5 % of the best. For efficiency, within
            5 % of the required efficiency.
        break_even: the smallest number above 1 that beats one node, by the fit; None if none does.
        measured: whether this number of nodes, and the batch it would have, lie within the range of
            the points of this model and link.
        most_measured: the most nodes in the points of this model and link.
        anywhere: the best number by the fit, searched up to 4096 nodes or until each node has one
            example left. Outside of the compared numbers the search is coarse. None if there is no
            best number because the last one searched is the best, or none meets the deadline.
    """

    question: Question
    nodes: Counts
    value: Floats
    low: Floats
    high: Floats
    probability: Floats
    beats_one: Floats
    best: int
    near: tuple[int, ...]
    break_even: int | None
    measured: NDArray[np.bool_]
    most_measured: int
    anywhere: int | None

    @property
    def interior(self) -> bool:
        """Whether both fewer and more nodes are worse than the best."""
        return self.best > 1 and self.anywhere == self.best

    @property
    def predicted(self) -> bool:
        """Whether the best number lies outside the measured range."""
        return not self.measured[self.at(self.best)]

    @property
    def late(self) -> bool:
        """Whether no compared number meets the deadline by the fit. `best` is then the fastest."""
        return not self.question.meets(self.value[self.at(self.best)])

    @property
    def never_probability(self) -> float:
        """The probability that no compared number meets the deadline."""
        probability = 1 - float(self.probability.sum())
        return probability if self.measured.all() else min(probability, MOST_SURE)

    @property
    def extrapolated(self) -> bool:
        """Whether the best number is more than twice the largest measured one."""
        return self.best > FAR * self.most_measured

    @property
    def range(self) -> tuple[int, int]:
        """The range that contains the best number with a probability of 90 % or more.

        Less than 5 % lie below the range, at most 5 % above it.
        """
        below = np.cumsum(self.probability)
        first, last = np.searchsorted(below, (np.array(TAILS) - _ROUNDING) * below[-1])
        return int(self.nodes[first]), int(self.nodes[last])

    @property
    def best_probability(self) -> float:
        """The probability of the best number.

        For efficiency, the probability that this number, or a larger one, is efficient enough.
        """
        at = self.at(self.best)
        if self.question.objective != "efficiency":
            return float(self.probability[at])
        probability = float(self.probability[at:].sum())
        return probability if self.measured[at] else min(probability, MOST_SURE)

    def at(self, nodes: int) -> int:
        """Return the index of a number of nodes."""
        return int(np.searchsorted(self.nodes, nodes))


@dataclass(frozen=True)
class StepTimes:
    """Predicted step times on numbers of nodes. They answer all questions about one batch.

    Attributes:
        at: the compared numbers of nodes, ascending from 1, (points,).
        step_s: step times in seconds by the fit, (points,).
        drawn_s: equally likely step times in seconds, (draws, points), all above 0.
        drawn: mask of the draws of the fit that were kept, (draws of the fit,).
        far: the compared numbers and a coarse grid of further ones, (far points,).
        far_s: step times in seconds by the fit at `far`, (far points,).
        measured, most_measured: see `Optimum`.
    """

    at: At
    step_s: Floats
    drawn_s: Floats
    drawn: NDArray[np.bool_]
    far: At
    far_s: Floats
    measured: NDArray[np.bool_]
    most_measured: int


def find_times(
    fitted: Fit,
    question: Question,
    nodes: Iterable[int],
    *,
    payload: float,
    model: str = "",
    link: str = "",
) -> StepTimes:
    """Return the step times of one curve of a fit, for `find_optimum`.

    Args:
        fitted: a fit with draws.
        question: any one of the questions to answer. They all have the same batch.
        nodes: the numbers to compare. One node is always compared. At a fixed global batch,
            numbers with less than one example per node are left out.
        payload: size of one gradient in bytes.
        model: label of the model in the fit.
        link: label of the link in the fit.

    Raises:
        ValueError: the fit has no draws, or no such model or link; its points do not determine
            the step time of one node or of these batches; or a number of nodes is below 1.

    Example:
        >>> from nodewise.predict.fit import fit
        >>> from nodewise.predict.laws.ring import RingAllReduce
        >>> points = Points.of([1, 2, 3, 4], 64, 5e6, [0.10, 0.15, 0.17, 0.18])
        >>> fitted = fit(RingAllReduce(), points)
        >>> question = Question("epoch_time", batch=64, examples=60_000)
        >>> optimum = find_optimum(question, find_times(fitted, question, [2, 3, 4], payload=5e6))
        >>> optimum.best, optimum.interior
        (4, False)
    """
    _check(fitted, model, link)
    points = fitted.points
    return times_of(
        question,
        nodes,
        payload=payload,
        points=points.where((points.model == model) & (points.link == link)),
        evaluate=lambda at: fitted.evaluate(at, model, link),
        draw=lambda at: fitted.draw(at, model, link),
    )


def times_of(
    question: Question,
    nodes: Iterable[int],
    *,
    payload: float,
    points: Points,
    evaluate: Callable[[At], Floats],
    draw: Callable[[At], Floats],
) -> StepTimes:
    """Return step times for `find_optimum`, from any predictor.

    Args:
        question: any one of the questions to answer. They all have the same batch.
        nodes: the numbers to compare.
        payload: size of one gradient in bytes.
        points: the measured points of the curve.
        evaluate: function that returns step times, (points,).
        draw: function that returns equally likely step times, (draws, points).

    Raises:
        ValueError: the points do not determine the step time of one node or of these batches.
    """
    counts = _compared(question, nodes)
    at, far = (
        At.of(where, question.batches(where), payload)
        for where in (counts, _far_counts(question, counts))
    )
    step_s = evaluate(at)
    if not (step_s > 0).all():
        raise ValueError("the points say nothing about one node, or about such batches")
    drawn_s = draw(at)
    timed = np.all(drawn_s > 0, axis=1)  # drop draws in which some step takes no time
    if timed.mean() < _TIMED:
        raise ValueError("the points say too little about one node, or about such batches")
    most = int(points.nodes.max())
    return StepTimes(
        at, step_s, drawn_s[timed], timed, far, evaluate(far), _measured(points, at), most
    )


def find_optimum(question: Question, times: StepTimes) -> Optimum:
    """Return the best number of nodes for a question.

    Args:
        question: the question. Its batch is the one that `times` were computed for.
        times: as from `find_times` or `times_of`.
    """
    at, far = times.at, times.far
    counts, everywhere = at.nodes.astype(np.int64), far.nodes.astype(np.int64)
    value = question.values(counts, times.step_s, _steps(question, at))
    steps = np.broadcast_to(_steps(question, at, len(times.drawn)), (len(times.drawn), len(counts)))
    drawn = question.values(counts, times.drawn_s, steps[times.drawn])
    below, above = interval_of(drawn)
    far_value = question.values(everywhere, times.far_s, _steps(question, far))
    last = int(question.best(far_value, everywhere))
    no_best = 0 < last == len(everywhere) - 1 or not question.meets(far_value[last])
    met = question.meets(drawn).any(axis=1)
    beats = question.beats_one(counts, value)
    beaten = question.beats_one(counts, drawn).mean(axis=0)
    chosen = np.bincount(question.best(drawn[met], counts), minlength=len(counts)) / len(drawn)
    return Optimum(
        question=question,
        nodes=counts,
        value=value,
        # include the value: an unidentified coefficient may be 0 in the fit, at the edge of draws
        low=np.minimum(below, value),
        high=np.maximum(above, value),
        probability=_capped_where_unmeasured(chosen, times.measured, value),
        beats_one=np.where(times.measured, beaten, np.minimum(beaten, MOST_SURE)),
        best=int(counts[question.best(value, counts)]),
        near=tuple(counts[question.near(value, counts)].tolist()),
        break_even=int(counts[np.argmax(beats)]) if beats.any() else None,
        measured=times.measured,
        most_measured=times.most_measured,
        anywhere=None if no_best else int(everywhere[last]),
    )


def _capped_where_unmeasured(
    probability: Floats, measured: NDArray[np.bool_], value: Floats
) -> Floats:
    """Limit probabilities to `MOST_SURE` where nothing was measured.

    The excess goes to the best of the measured numbers of nodes, or to one node if none was
    measured.
    """
    most = np.where(measured, 1.0, MOST_SURE)
    least = np.minimum(probability, most)
    fallback = int(np.argmin(np.where(measured, value, np.inf))) if measured.any() else 0
    least[fallback] += probability.sum() - least.sum()
    return np.asarray(np.minimum(least, most))


def _compared(question: Question, nodes: Iterable[int]) -> Counts:
    counts = np.unique(np.array([1, *nodes], dtype=np.int64))
    if counts[0] < 1:
        raise ValueError(f"nodes: must be 1 or more, not {counts[0]}")
    return counts[counts <= question.most(int(counts[-1]))]


def _check(fitted: Fit, model: str, link: str) -> None:
    if not len(fitted.draws):
        raise ValueError("an optimum with its probability needs a fit with draws")
    for what, label, known in (
        ("model", model, fitted.points.model),
        ("link", link, fitted.points.link),
    ):
        if label not in known:
            raise ValueError(f"the fit has no {what} {label!r}")


def _steps(question: Question, at: At, draws: int | None = None) -> Floats:
    """Return how many steps the job takes at points, (points,) or (draws, points)."""
    global_batch = at.nodes * at.batch
    if not question.to_target or question.steps is None:
        steps: Floats = (question.examples or 1.0) / global_batch
        return steps
    if draws is None:
        return question.steps.evaluate(global_batch)
    return question.steps.draw(global_batch, draws)


def _far_counts(question: Question, counts: Counts) -> Counts:
    """Return the compared numbers of nodes plus a geometric grid between and beyond them."""
    last = int(counts[-1])
    end = question.farthest(last)
    between = np.geomspace(1, last, _FAR_POINTS)
    far = np.geomspace(last + 1, end, _FAR_POINTS if last < end else 0)
    return np.unique(np.concatenate([counts, between, far]).round().astype(np.int64))


def _measured(points: Points, at: At) -> NDArray[np.bool_]:
    """Return whether nodes and batch lie within the range of measured points, (points,)."""
    inside = np.full(len(at.nodes), len(points) > 0)
    for asked, known in ((at.nodes, points.nodes), (at.batch, points.batch)):
        inside &= (asked >= known.min(initial=np.inf)) & (asked <= known.max(initial=-np.inf))
    return inside

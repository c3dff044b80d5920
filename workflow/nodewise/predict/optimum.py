"""The best number of nodes for an objective: not one number, but how sure each number is.

Whatever law was fitted is asked at every number of nodes, with its coefficients and with all of its
draws. Minima are flat and points few: the answer is the probability that k nodes are best, and the
set that is within 5 % of the best. Where a law says that there is no best number, so does this.
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
"""No law is more probable than this to hold where nothing was measured."""
FAR = 2
"""More than so many times as many nodes as were measured are an extrapolation."""
_FAR_POINTS = 300
_TIMED = 0.5  # of the draws, at least, must have a step on every number of nodes


@dataclass(frozen=True)
class Optimum:
    """The answer to a question. Arrays have shape (points,), one point per number of nodes.

    Attributes:
        question: what was asked.
        nodes: compared numbers of nodes, from 1 up.
        value: by the fit, in `question.unit`; `low` and `high` are the ends of its 90 % interval.
        probability: that so many nodes are the best of those compared, by the draws.
        beats_one: the probability that so many nodes do better than one.
        best: the best number of nodes by the fit.
        near: numbers of nodes within 5 % of the best; of efficiency, within 5 % of 0.5.
        break_even: the fewest nodes above one that beat it, by the fit; None if none do.
        measured: whether the fit has points of this model and link around so many nodes, and
            around the batch that they would have.
        most_measured: the largest number of nodes of the fit's points of this model and link.
        anywhere: the best number by the fit up to 4096 nodes, or where a node has one example left;
            from a coarse search where it is none of those compared. None: there is no best
            number, the last of all is the best.
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
        """Whether both fewer and more nodes than the best are worse."""
        return self.best > 1 and self.anywhere == self.best

    @property
    def predicted(self) -> bool:
        """Whether the best number lies outside of what was measured."""
        return not self.measured[self.at(self.best)]

    @property
    def extrapolated(self) -> bool:
        """Whether the best number is more than twice the largest that was measured."""
        return self.best > FAR * self.most_measured

    @property
    def range(self) -> tuple[int, int]:
        """The numbers between which the best one is, with a probability of 90 % or more."""
        below = np.cumsum(self.probability)
        first, last = np.searchsorted(below, [TAILS[0] * below[-1], TAILS[1] * below[-1]])
        return int(self.nodes[first]), int(self.nodes[last])

    @property
    def best_probability(self) -> float:
        """How probable the best number is; of efficiency, that it or more nodes reach enough."""
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
    """What a law says of steps on numbers of nodes: enough to answer all questions of a batch.

    Attributes:
        at: the compared numbers of nodes, from 1 up; (points,).
        step_s: seconds of a step there by the fit, (points,).
        drawn_s: the same by its draws, (draws, points), all above 0.
        drawn: which of the draws of the fit these are, (draws of the fit,).
        far, far_s: the same numbers and others further on, and the fit's seconds there.
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
        question: any of those to answer: they have one batch in common.
        nodes: the numbers to compare; one node is always compared. Those for which there is not an
            example each at a fixed global batch are left out.
        payload: the bytes of one gradient.
        model: the label of the model in the fit.
        link: the label of the link in the fit.

    Raises:
        ValueError: the fit has no draws, or no such model or link; its points say too little of
            one node or of the batches; or a number of nodes is below 1.

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
    """Return what answers a question about measured points, by anything that goes on from them.

    Args:
        question: what is to be best.
        nodes: the numbers to compare.
        payload: the bytes of one gradient.
        points: what was measured.
        evaluate: returns the step times somewhere, (points,).
        draw: returns equally likely ones, (draws, points).

    Raises:
        ValueError: the points say too little of one node or of the batches.
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
    timed = np.all(drawn_s > 0, axis=1)  # in the others a step takes no time at all somewhere
    if timed.mean() < _TIMED:
        raise ValueError("the points say too little about one node, or about such batches")
    most = int(points.nodes.max())
    return StepTimes(
        at, step_s, drawn_s[timed], timed, far, evaluate(far), _measured(points, at), most
    )


def find_optimum(question: Question, times: StepTimes) -> Optimum:
    """Return the best number of nodes for a question of the batch that the times are of."""
    at, far = times.at, times.far
    counts, everywhere = at.nodes.astype(np.int64), far.nodes.astype(np.int64)
    value = question.values(counts, times.step_s, _steps(question, at))
    steps = np.broadcast_to(_steps(question, at, len(times.drawn)), (len(times.drawn), len(counts)))
    drawn = question.values(counts, times.drawn_s, steps[times.drawn])
    low, high = interval_of(drawn)
    last = int(
        question.best(question.values(everywhere, times.far_s, _steps(question, far)), everywhere)
    )
    beats = question.beats_one(counts, value)
    beaten = question.beats_one(counts, drawn).mean(axis=0)
    chosen = np.bincount(question.best(drawn, counts), minlength=len(counts)) / len(drawn)
    return Optimum(
        question=question,
        nodes=counts,
        value=value,
        low=low,
        high=high,
        probability=_capped_where_unmeasured(chosen, times.measured, value),
        beats_one=np.where(times.measured, beaten, np.minimum(beaten, MOST_SURE)),
        best=int(counts[question.best(value, counts)]),
        near=tuple(counts[question.near(value, counts)].tolist()),
        break_even=int(counts[np.argmax(beats)]) if beats.any() else None,
        measured=times.measured,
        most_measured=times.most_measured,
        anywhere=None if 0 < last == len(everywhere) - 1 else int(everywhere[last]),
    )


def _capped_where_unmeasured(
    probability: Floats, measured: NDArray[np.bool_], value: Floats
) -> Floats:
    """Return probabilities of which none is above `MOST_SURE` where nothing was measured.

    What is left then is that of the best of those that were measured, or of one node.
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
    """Return the steps at points, (points,) or (draws, points)."""
    global_batch = at.nodes * at.batch
    if not question.to_target or question.steps is None:
        steps: Floats = (question.examples or 1.0) / global_batch
        return steps
    if draws is None:
        return question.steps.evaluate(global_batch)
    return question.steps.draw(global_batch, draws)


def _far_counts(question: Question, counts: Counts) -> Counts:
    """Return the compared numbers of nodes, those between, and further ones, ever further apart."""
    last = int(counts[-1])
    end = question.farthest(last)
    between = np.geomspace(1, last, _FAR_POINTS)
    far = np.geomspace(last + 1, end, _FAR_POINTS if last < end else 0)
    return np.unique(np.concatenate([counts, between, far]).round().astype(np.int64))


def _measured(points: Points, at: At) -> NDArray[np.bool_]:
    """Return where there are measured points around, (points,)."""
    inside = np.full(len(at.nodes), len(points) > 0)
    for asked, known in ((at.nodes, points.nodes), (at.batch, points.batch)):
        inside &= (asked >= known.min(initial=np.inf)) & (asked <= known.max(initial=-np.inf))
    return inside

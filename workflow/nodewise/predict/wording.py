"""Put the answer about the best number of nodes into words."""

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nodewise.core.intervals import INTERVAL
from nodewise.core.units import write_number, write_plain
from nodewise.predict.optimum import Optimum
from nodewise.predict.question import NEAR, Counts


class _Words(NamedTuple):
    """Phrases for an objective: the goal, that more nodes are always better, and "better"."""

    goal: str
    further: str
    better: str


_LISTED = 4
_SETTLED = 0.5  # the points leave a best number open that is less probable than this
_NEAR = f"{100 * NEAR:g} %"
_SURE = 0.995  # from this probability on, write "> 0.99"
_INTERVAL = f"{100 * INTERVAL:g} % interval"
_ONE = "one node of the same strategy"
_NO_GAIN = ("efficiency", "deadline")  # their goal is not to be better than one node
_WORDS = {
    "epoch_time": _Words(
        "an epoch is shortest on", "an epoch gets ever shorter with more nodes", "faster"
    ),
    "target_time": _Words(
        "the target accuracy is reached soonest on",
        "training gets ever shorter with more nodes",
        "faster",
    ),
    "epoch_cost": _Words(
        "an epoch is cheapest on", "an epoch gets ever cheaper with more nodes", "cheaper"
    ),
    "target_cost": _Words(
        "the target accuracy is cheapest on",
        "training gets ever cheaper with more nodes",
        "cheaper",
    ),
    "efficiency": _Words(
        "efficiency is {least} or more on up to", "efficiency stays at {least} or more", "faster"
    ),
    "deadline": _Words(
        "{job} within {deadline} at the least cost on", "training gets ever cheaper", "faster"
    ),
    "energy": _Words(
        "{job} with the least energy on",
        "it takes ever less energy with more nodes",
        "more economical",
    ),
}


def in_words(optimum: Optimum, unit: str = "", *, valued: bool = True) -> str:
    """Return the answer in a few sentences, with its value, its probability and its basis.

    Numbers of nodes are compared with one node of the same strategy. With parameter servers or
    compressed gradients, that node is slower than plain training in one process.

    Args:
        optimum: the answer.
        unit: the unit of values for readers; default: that of the question.
        valued: whether to say the value of the best number and its interval.
    """
    question = optimum.question
    known = {
        "least": f"{question.least_efficiency:g}",
        "deadline": write_number(question.deadline_s or 0.0, "s"),
        "job": "the target accuracy is reached" if question.to_target else "an epoch is done",
    }
    words = _Words(*(text.format(**known) for text in _WORDS[question.objective]))
    value = _value(optimum, unit or question.unit) if valued else ""
    first = _late(optimum, value) if optimum.late else _best(optimum, words, value)
    sentences = [
        f"{_compared(optimum)} {first}",
        _range(optimum),
        _break_even(optimum, words),
        _limits(optimum, words),
        _basis(optimum),
    ]
    answer = " ".join(filter(None, sentences))
    return answer if question.node == "node" else re.sub(r"\bnode", question.node, answer)


def _basis(optimum: Optimum) -> str:
    """Say whether the best number is a prediction or an extrapolation; empty if neither."""
    if optimum.extrapolated:
        return (
            f"This is an extrapolation: the measurements end at {_nodes(optimum.most_measured)}, "
            "less than half as many."
        )
    if optimum.predicted:
        return (
            "This is a prediction: this number of nodes, or its batch per worker, is outside of "
            "what was measured."
        )
    return ""


def ranges(nodes: Counts, mask: NDArray[np.bool_]) -> str:
    """Return the numbers where `mask` is true, with neighbours joined: `2–4, 8`."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(int), [0]])))
    runs = [(nodes[first], nodes[after - 1]) for first, after in edges.reshape(-1, 2)]
    return ", ".join(f"{a:,}" if a == b else f"{a:,}–{b:,}" for a, b in runs)


def _named(optimum: Optimum, goal: str) -> str:
    """Return a goal with the target accuracy named, or with the basis of its steps."""
    steps = optimum.question.steps
    if steps is None or not optimum.question.to_target or steps.measured:
        return goal
    target = "an accuracy (steps by the gradient noise scale)"
    if steps.target is not None:
        target = f"a training accuracy of {steps.target:.3g}"
    return goal.replace("the target accuracy", target)


def _compared(optimum: Optimum) -> str:
    question, last = optimum.question, int(optimum.nodes[-1])
    these = f"up to {_nodes(last)}"
    if len(optimum.nodes) < last:  # not all numbers up to `last` were compared
        some = ", ".join(f"{n:,}" for n in optimum.nodes[:_LISTED])
        more = ", …" if len(optimum.nodes) > _LISTED else ""
        these = f"{some}{more} nodes up to {last:,}"
    if not question.batch_known:
        return f"Of {these}" + (", each at the same batch," if question.batch else " at one batch,")
    if question.batch is not None:
        return f"Of {these} with {question.batch:,.0f} examples each,"
    return f"Of {these} that share {question.global_batch:,.0f} examples per step,"


def _value(optimum: Optimum, unit: str) -> str:
    """Return the value of the best number and its interval; empty if it is 1 by definition."""
    question, at = optimum.question, optimum.at(optimum.best)
    quantity, _, per = unit.partition(" ")
    after = {"s": "", "1": "", "currency": ""}.get(quantity, f" {quantity}") + f" {per}".rstrip()
    if optimum.best == 1 and question.unit == "1":
        return ""
    if question.relative:
        quantity, after = "×", f" the {question.objective.rpartition('_')[2]} of one node"
    value, low, high = (
        _write(float(ends[at]), quantity) for ends in (optimum.value, optimum.low, optimum.high)
    )
    return f": {value}{after} ({_INTERVAL} {low} – {high})"


def _write(value: float, quantity: str) -> str:
    if quantity in ("s", "×"):
        return write_number(value, quantity)
    return f"{value:.2f}" if quantity == "1" else write_plain(value)


def _late(optimum: Optimum, value: str) -> str:
    """Say that no number meets the deadline, which is fastest, and whether more nodes meet it."""
    question = optimum.question
    job = _named(optimum, "the target accuracy") if question.to_target else "an epoch"
    deadline = write_number(question.deadline_s, "s")
    further = f"no larger number does, {_end(optimum)}"
    if optimum.anywhere is not None:
        further = f"about {_nodes(optimum.anywhere)} would meet it"
    open_still = "by the formula " if optimum.never_probability < _SETTLED else ""
    return (
        f"{open_still}no number meets the deadline of {deadline} for {job} "
        f"({_sure(optimum.never_probability)}). The soonest is {_nodes(optimum.best)}{value}. "
        f"By the formula {further}."
    )


def _best(optimum: Optimum, words: _Words, value: str) -> str:
    """Say the best number of nodes, its probability, and which others are nearly as good."""
    best, question = f"{_named(optimum, words.goal)} {_nodes(optimum.best)}", optimum.question
    close, of = list(optimum.near), "the best"
    if question.objective == "efficiency":  # the best may be far above the least efficiency
        least, of = question.least_efficiency, f"{question.least_efficiency:g}"
        close = [n for n in close if abs(optimum.value[optimum.at(n)] / least - 1) <= NEAR]
    others = close not in ([], [optimum.best])
    listed = ranges(optimum.nodes, np.isin(optimum.nodes, close))
    if question.objective != "efficiency" and optimum.best_probability < _SETTLED:
        near = f" ({listed} nodes are within {_NEAR} of it)" if others else ""
        return f"{best} by the formula{near}{value}. {_unsettled(optimum)}"
    what = "the cost" if question.objective == "deadline" else "it"
    near = f" On {listed} nodes {what} is within {_NEAR} of {of}." if others else ""
    return f"{best} ({_sure(optimum.best_probability)}){value}.{near}"


def _unsettled(optimum: Optimum) -> str:
    """Say the probability of the best number of nodes, and which number is most probable."""
    sure = f"{_sure(optimum.best_probability)} for {_nodes(optimum.best)}"
    mode = int(np.argmax(optimum.probability))
    if optimum.probability[mode] > optimum.best_probability:
        likely = f"{optimum.probability[mode]:.2f} for {_nodes(int(optimum.nodes[mode]))}"
        return f"The points leave it open: {sure}, {likely}."
    return f"The points leave it open: {sure}, and no other is more probable."


def _range(optimum: Optimum) -> str:
    """Say in which range the best number lies; empty if it is only one number."""
    if optimum.late:
        return ""
    if optimum.question.objective == "deadline" and optimum.never_probability > 1 - INTERVAL:
        return f"With {_sure(optimum.never_probability)} no number meets the deadline."
    first, last = optimum.range
    if first == last:
        return ""
    open_end = last == optimum.nodes[-1] and optimum.anywhere != last
    most = ", the largest number compared" if open_end else ""
    return f"The {_INTERVAL} of the best number is {first:,} to {last:,}{most}."


def _sure(probability: float) -> str:
    """Return a probability in words. It is never 0 or 1, as it comes from some hundred draws."""
    if probability >= _SURE:
        return "probability > 0.99"
    return f"probability {'< 0.01' if probability < 1 - _SURE else f'{probability:.2f}'}"


def _break_even(optimum: Optimum, words: _Words) -> str:
    if len(optimum.nodes) == 1:
        return ""
    if optimum.break_even is None:
        if optimum.anywhere == 1 and optimum.question.objective != "efficiency":
            return f"No larger number of nodes is {words.better} than {_ONE}."
        return f"None of the larger numbers compared is {words.better} than {_ONE}."
    if optimum.question.objective in _NO_GAIN:
        return ""
    sure = _sure(float(optimum.beats_one[optimum.at(optimum.break_even)]))
    nodes = _nodes(optimum.break_even)
    return f"At least {nodes} are needed to be {words.better} than {_ONE} ({sure})."


def _limits(optimum: Optimum, words: _Words) -> str:
    """Say that the optimum lies beyond the compared numbers, or that there is none; else empty."""
    if optimum.interior or optimum.late or optimum.anywhere == 1:
        return ""
    if optimum.anywhere is None:
        return f"The formula has no interior optimum: {words.further}, {_end(optimum)}."
    further = _nodes(optimum.anywhere)
    if optimum.question.objective == "efficiency":
        return f"By the formula this holds further out, up to about {further}."
    return f"By the formula the optimum lies further out, at about {further}."


def _end(optimum: Optimum) -> str:
    """Say up to which number of nodes the formula was searched."""
    last = optimum.question.farthest(int(optimum.nodes[-1]))
    if optimum.question.most(last + 1) == last:
        return "down to one example on each"
    return f"at least up to {last:,} nodes"


def _nodes(count: int) -> str:
    return "one node" if count == 1 else f"{count:,} nodes"

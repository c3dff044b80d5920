"""An optimum in words, and as rows of a table."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nodewise.overhead.optimum import LEAST_EFFICIENCY, NEAR, Counts, Optimum


class _Words(NamedTuple):
    """What an objective is called: where it is best, of what, why more nodes would be better."""

    goal: str
    best: str
    further: str
    better: str


_LISTED = 4
_STANDS_OUT = 0.5  # a best number that is less probable is not told before those near it
_OPEN = 0.2  # one that is less probable still is hardly told by the points
_WORDS = {
    "epoch_time": _Words(
        "an epoch is shortest on",
        "the shortest",
        "an epoch gets ever shorter with more nodes",
        "quicker",
    ),
    "target_time": _Words(
        "the target accuracy is reached soonest on",
        "the soonest",
        "training gets ever shorter with more nodes",
        "quicker",
    ),
    "epoch_cost": _Words(
        "an epoch is cheapest on",
        "the cheapest",
        "an epoch gets ever cheaper with more nodes",
        "cheaper",
    ),
    "target_cost": _Words(
        "the target accuracy is cheapest on",
        "the cheapest",
        "training gets ever cheaper with more nodes",
        "cheaper",
    ),
    "efficiency": _Words(
        f"efficiency is {LEAST_EFFICIENCY:g} or more on up to",
        f"an efficiency of {LEAST_EFFICIENCY:g}",
        f"efficiency stays at {LEAST_EFFICIENCY:g} or more",
        "quicker",
    ),
}


def in_words(optimum: Optimum) -> str:
    """Return the answer in a few sentences, with its probability and what it rests on."""
    words = _WORDS[optimum.question.objective]
    said = [
        f"{_compared(optimum)} {_goal(optimum, words)} {_best(optimum, words)}",
        _break_even(optimum, words),
        _limits(optimum, words),
        "The best number is outside of what was measured: a prediction."
        if optimum.predicted
        else "",
    ]
    return " ".join(filter(None, said))


def optimum_rows(optimum: Optimum, **about: object) -> list[dict[str, object]]:
    """Return an optimum as rows of a table, one per number of nodes, each beginning with `about`.

    `kind` is `fitted` where the fit has points around, else `predicted`. `batch_per_worker` need
    not be whole at a fixed global batch. `answer` is the same text in each row.
    """
    question = optimum.question
    answer = in_words(optimum)
    rows = []
    for i, (nodes, batch) in enumerate(
        zip(optimum.nodes.tolist(), question.batches(optimum.nodes).tolist(), strict=True)
    ):
        row: dict[str, object] = {
            "objective": question.objective,
            "held": "global_batch" if question.batch is None else "batch_per_worker",
            "batch_per_worker": batch,
            "global_batch": batch * nodes,
            "nodes": nodes,
            "value": float(optimum.value[i]),
            "low": float(optimum.low[i]),
            "high": float(optimum.high[i]),
            "unit": question.unit,
            "probability": float(optimum.probability[i]),
            "beats_one": float(optimum.beats_one[i]),
            "sure": _probability(optimum) if nodes == optimum.best else np.nan,
            "best": nodes == optimum.best,
            "near": nodes in optimum.near,
            "break_even": nodes == optimum.break_even,
            "interior": optimum.interior,
            "kind": "fitted" if optimum.measured[i] else "predicted",
            "answer": answer,
        }
        rows.append(about | row)
    return rows


def ranges(nodes: Counts, mask: NDArray[np.bool_]) -> str:
    """Return the numbers at which `mask` is true, neighbours joined, such as `2–4, 8`."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(int), [0]])))
    runs = [(nodes[first], nodes[after - 1]) for first, after in edges.reshape(-1, 2)]
    return ", ".join(f"{a:,}" if a == b else f"{a:,}–{b:,}" for a, b in runs)


def _goal(optimum: Optimum, words: _Words) -> str:
    """Return the goal in words; of a target accuracy, which one and what its steps rest on."""
    steps = optimum.question.steps
    if steps is None or not optimum.question.to_target:
        return words.goal
    if steps.target is None:
        target = "an accuracy (steps by the gradient noise scale)"
    else:
        target = f"a training accuracy of {steps.target:.3g}"
    return words.goal.replace("the target accuracy", target)


def _compared(optimum: Optimum) -> str:
    question, last = optimum.question, int(optimum.nodes[-1])
    these = f"up to {_nodes(last)}"
    if len(optimum.nodes) < last:  # not all of them were asked about
        some = ", ".join(f"{n:,}" for n in optimum.nodes[:_LISTED])
        these = f"{some}{', …' * (len(optimum.nodes) > _LISTED)} nodes up to {last:,}"
    if question.batch is not None:
        return f"Of {these} with {question.batch:,.0f} examples each,"
    return f"Of {these} that share {question.global_batch:,.0f} examples per step,"


def _best(optimum: Optimum, words: _Words) -> str:
    """Name the best number of nodes, or first those near it where none of them stands out."""
    best = f"{_nodes(optimum.best)} ({_sure(optimum)})"
    if len(optimum.near) == 1:
        return f"{best}."
    near = ranges(optimum.nodes, np.isin(optimum.nodes, optimum.near))
    if optimum.question.objective != "efficiency" and _probability(optimum) < _STANDS_OUT:
        law = f"{near} nodes by the law, all within {100 * NEAR:g} % of its best,"
        if _probability(optimum) >= _OPEN:
            return f"{law} {best}."
        return f"{law} {_nodes(optimum.best)}. The points leave it open: {_sure(optimum)}."
    return f"{best}. Within {100 * NEAR:g} % of {words.best}: {near} nodes."


def _sure(optimum: Optimum) -> str:
    """Say how probable the best number is, and which one is more so."""
    at = optimum.at(optimum.best)
    sure = f"probability {_probability(optimum):.2f}"
    if optimum.question.objective == "efficiency":
        return sure
    mode = int(np.argmax(optimum.probability))
    if optimum.probability[mode] == optimum.probability[at]:
        return sure
    likely = _nodes(int(optimum.nodes[mode]))
    return f"{sure}; most probable: {likely}, {optimum.probability[mode]:.2f}"


def _probability(optimum: Optimum) -> float:
    """Return how probable the best number is; of efficiency, that it or more nodes reach 0.5."""
    at = optimum.at(optimum.best)
    if optimum.question.objective == "efficiency":
        return float(optimum.probability[at:].sum())
    return float(optimum.probability[at])


def _break_even(optimum: Optimum, words: _Words) -> str:
    if optimum.break_even is None:
        if len(optimum.nodes) == 1:
            return ""
        if optimum.anywhere == 1 and optimum.question.objective != "efficiency":
            return f"No more nodes are {words.better} than one: there is no interior optimum."
        return f"None of them are {words.better} than one."
    sure = optimum.beats_one[optimum.at(optimum.break_even)]
    nodes = _nodes(optimum.break_even)
    return f"The fewest that are {words.better} than one are {nodes} (probability {sure:.2f})."


def _limits(optimum: Optimum, words: _Words) -> str:
    """Say why there are not worse numbers on both sides of the best one, if that is so."""
    if optimum.interior or optimum.anywhere == 1:
        return ""
    if optimum.anywhere is None:
        last = optimum.question.farthest(int(optimum.nodes[-1]))
        end = f"up to {last:,} at least"
        if optimum.question.most(last + 1) == last:
            end = "down to one example on each"
        return f"No interior optimum: by the law {words.further}, {end}."
    return f"By the law, about {_nodes(optimum.anywhere)} do better than all compared."


def _nodes(count: int) -> str:
    return "one node" if count == 1 else f"{count:,} nodes"

"""What is to be best about a number of nodes: the objectives, and what their values are.

Numbers of steps are not rounded: an epoch of D examples takes D/(n·b) steps. Nor are batches: at a
fixed global batch G every node has G/n examples.
"""

from dataclasses import dataclass
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from nodewise.predict.law import Floats
from nodewise.predict.objective import Objective
from nodewise.predict.steps_to_accuracy import StepsToAccuracy

Counts = NDArray[np.int64]
OBJECTIVES: tuple[str, ...] = get_args(Objective)

NEAR = 0.05
LEAST_EFFICIENCY = 0.5
FARTHEST = 4096
"""How many nodes a law is asked about when it says whether there is a best number at all."""
_ALIKE = 1e-9  # values that differ by less are equal: the rest is rounding
_HOUR_S = 3600.0


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """What is given of a training: the same on any number of nodes, and for any objective.

    - `batch`: examples per node and step, or `global_batch`: examples per step.
    - `examples` of an epoch.
    - `steps` to an accuracy. Their law is one of synchronous training: it knows no staleness.
    - `price` of a node for an hour.
    - `least_efficiency` that is enough.
    - `deadline_s`: seconds that a job may take.
    - `watts` that a node takes.
    - `startup_s`: seconds in which nodes do not train yet. Times and costs include them.
    """

    batch: float | None = None
    global_batch: float | None = None
    examples: float | None = None
    steps: StepsToAccuracy | None = None
    price: float | None = None
    least_efficiency: float = LEAST_EFFICIENCY
    deadline_s: float | None = None
    watts: float | None = None
    startup_s: float = 0.0


@dataclass(frozen=True)
class Question(Conditions):
    """What is to be best, and what is given: either `batch` or `global_batch`, and what it needs.

    - `epoch_time`, `epoch_cost`: of one pass over `examples`, which they need.
    - `target_time`, `target_cost`: of the `steps` to an accuracy, which they need. If steps are
      known up to a factor only, so are these: they are relative to one node.
    - `efficiency`: seconds on one node over n times those on n nodes, for the same examples. The
      best is the most nodes with `least_efficiency` or more.
    - `deadline`: seconds of the job, which is the steps to an accuracy if they are known, else an
      epoch. The best is the cheapest that takes no more than `deadline_s`; if there is none, the
      fastest.
    - `energy`: of the same job, in Wh.

    A cost is nodes × hours × `price`; without a price it is in node-hours.

    Times of steps are in units of `unit_s` seconds. For answers in words, `node` is what a node is
    called. Unless `batch_known`, batches are placeholders.

    Raises:
        ValueError: something is missing, too much, or not above 0.
    """

    objective: Objective
    unit_s: float = 1.0
    node: str = "node"
    batch_known: bool = True

    def __post_init__(self) -> None:
        if self.objective not in OBJECTIVES:
            raise ValueError(f"objective: must be one of {', '.join(OBJECTIVES)}")
        for objective, name in (("deadline", "deadline_s"), ("energy", "watts")):
            if self.objective == objective and getattr(self, name) is None:
                raise ValueError(f"{objective} needs {name}")
        if (self.batch is None) == (self.global_batch is None):
            raise ValueError("give either a batch per worker or a global batch")
        if self.objective.startswith("epoch") and self.examples is None:
            raise ValueError(f"{self.objective} needs the examples of an epoch")
        if self.to_target and self.steps is None:
            raise ValueError(f"{self.objective} needs the steps to an accuracy")
        for name in ("batch", "global_batch", "examples", "price"):
            value = getattr(self, name)
            if value is not None and not 0 < value < np.inf:
                raise ValueError(f"{name}: must be a number above 0, not {value!r}")

    @property
    def to_target(self) -> bool:
        """Whether it is about a target accuracy."""
        of_job = self.objective in ("deadline", "energy") and self.steps is not None
        return of_job or self.objective.startswith("target")

    @property
    def unit(self) -> str:
        """What values are in: `s`, `node-hours`, `price`, or `1` for what has no unit."""
        if self.objective == "efficiency" or self._relative:
            return "1"
        if self.objective == "energy":
            return "Wh"
        if not self.objective.endswith("cost"):
            return "s"
        return "node-hours" if self.price is None else "price"

    @property
    def _relative(self) -> bool:
        return (
            self.to_target
            and self.steps is not None
            and self.steps.target is None
            and not self.steps.measured
        )

    def batches(self, nodes: Counts) -> Floats:
        """Return the examples per node and step on `nodes`."""
        if self.global_batch is not None:
            return self.global_batch / nodes.astype(np.float64)
        return np.full(nodes.shape, self.batch, dtype=np.float64)

    def most(self, nodes: int) -> int:
        """Return `nodes`, or as many as can have an example each at this global batch."""
        return nodes if self.global_batch is None else min(nodes, int(self.global_batch))

    def farthest(self, compared: int) -> int:
        """Return how many nodes are looked at, where up to `compared` are compared."""
        return self.most(max(FARTHEST, compared))

    def values(self, nodes: Counts, step_s: Floats, steps: Floats) -> Floats:
        """Return what is asked for, (…, points), of which the first is on one node.

        Args:
            nodes: (points,), the first being 1.
            step_s: times of a step, in units of `unit_s`, (…, points).
            steps: how many there are, (…, points).
        """
        seconds = step_s * self.unit_s * steps
        if self.objective == "efficiency":
            return seconds[..., :1] / (nodes * seconds)
        seconds = seconds + self.startup_s
        if self.objective.endswith("cost"):
            seconds = seconds * nodes * (self.price or 1.0) / _HOUR_S
        elif self.objective == "energy":
            seconds = seconds * nodes * (self.watts or 1.0) / _HOUR_S
        return seconds / seconds[..., :1] if self._relative else seconds

    def best(self, values: Floats, nodes: Counts) -> NDArray[np.intp]:
        """Return the index of the best point of `values`, (…, points): shape (…)."""
        if self.objective == "efficiency":
            enough = values >= self.least_efficiency  # one node always is
            return np.asarray(values.shape[-1] - 1 - np.argmax(enough[..., ::-1], axis=-1))
        values = self._costs(values, nodes)
        least = values.min(axis=-1, keepdims=True)
        return np.asarray(np.argmax(values <= (1 + _ALIKE) * least, axis=-1))  # the fewest nodes

    def _costs(self, values: Floats, nodes: Counts) -> Floats:
        """Return what is to be least: with a deadline, the cost of what is in time."""
        if self.objective != "deadline" or self.deadline_s is None:
            return values
        in_time = values <= self.deadline_s
        late = ~in_time.any(axis=-1, keepdims=True)
        return np.where(late, values, np.where(in_time, values * nodes, np.inf))

    def beats_one(self, nodes: Counts, values: Floats) -> NDArray[np.bool_]:
        """Return where nodes do better than one: of efficiency, do as much in less time."""
        if self.objective == "efficiency":
            return np.asarray(values * nodes > 1 + _ALIKE)
        return np.asarray(values < (1 - _ALIKE) * values[..., :1])

    def near(self, values: Floats, nodes: Counts) -> NDArray[np.bool_]:
        """Return which of `values`, (points,), are within 5 % of the best: of efficiency, of least.

        The best is always among them.
        """
        best = self.best(values, nodes)
        if self.objective == "efficiency":
            close = np.abs(values / self.least_efficiency - 1) <= NEAR
        else:
            costs = self._costs(values, nodes)
            close = costs <= (1 + NEAR) * costs[best]
        return np.asarray(close | (np.arange(len(values)) == best))

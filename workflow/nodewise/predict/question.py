"""The objectives by which numbers of nodes are compared, and how their values are computed.

Numbers of steps and batches are not rounded. An epoch of D examples takes D/(n·b) steps. At a fixed
global batch G every node has G/n examples.
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
"""The most nodes that are searched to decide whether a best number exists at all."""
_ALIKE = 1e-9  # relative differences below this are rounding errors
_HOUR_S = 3600.0


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """Properties of a training that are the same for all numbers of nodes and all objectives.

    Attributes:
        batch: examples per node and step.
        global_batch: examples per step of all nodes, instead of `batch`.
        examples: examples of an epoch.
        steps: law of the steps to an accuracy. It assumes synchronous training and does not model
            stale gradients.
        price: price of a node per hour.
        least_efficiency: lowest efficiency that is acceptable.
        deadline_s: seconds that a job may take.
        watts: power of a node.
        startup_s: seconds before training starts. Times and costs include them.
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
    """An objective and the conditions of the training. One of `batch`, `global_batch` is required.

    The objectives:

    - `epoch_time`, `epoch_cost`: time or cost of one pass over `examples`, which is required.
    - `target_time`, `target_cost`: time or cost of the `steps` to an accuracy, which is required.
      If steps are known only up to a factor, the values are relative to one node.
    - `efficiency`: the time on one node, divided by n times the time on n nodes, for the same
      examples. The best is the largest number with `least_efficiency` or more.
    - `deadline`: time of the job, in seconds. The job is the steps to an accuracy if these are
      known, else an epoch. The best is the cheapest number that meets `deadline_s`, or the fastest
      if none does (see `meets`).
    - `energy`: energy of the same job, in Wh.

    A cost is nodes × hours × `price`. Without a price it is in node-hours.

    Attributes:
        objective: one of the above.
        unit_s: unit of step times, in seconds.
        node: word for a node in answers.
        batch_known: whether batches are real; if not, they are placeholders.

    Raises:
        ValueError: a value is missing, superfluous, or not above 0.
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
        """Whether the job is to reach a target accuracy."""
        of_job = self.objective in ("deadline", "energy") and self.steps is not None
        return of_job or self.objective.startswith("target")

    @property
    def unit(self) -> str:
        """The unit of values: `s`, `Wh`, `node-hours`, `price`, or `1` if they have none."""
        if self.objective == "efficiency" or self.relative:
            return "1"
        if self.objective == "energy":
            return "Wh"
        if not self.objective.endswith("cost"):
            return "s"
        return "node-hours" if self.price is None else "price"

    @property
    def relative(self) -> bool:
        """Whether values are relative to one node, because steps are known only up to a factor."""
        return (
            self.to_target
            and self.steps is not None
            and self.steps.target is None
            and not self.steps.measured
        )

    def batches(self, nodes: Counts) -> Floats:
        """Return the examples per node and step for numbers of nodes."""
        if self.global_batch is not None:
            return self.global_batch / nodes.astype(np.float64)
        return np.full(nodes.shape, self.batch, dtype=np.float64)

    def most(self, nodes: int) -> int:
        """Return `nodes`, limited so that each node has an example of a fixed global batch."""
        return nodes if self.global_batch is None else min(nodes, int(self.global_batch))

    def farthest(self, compared: int) -> int:
        """Return the most nodes to search if up to `compared` are compared."""
        return self.most(max(FARTHEST, compared))

    def values(self, nodes: Counts, step_s: Floats, steps: Floats) -> Floats:
        """Return the values of the objective, (…, points). The first is that of one node.

        Args:
            nodes: numbers of nodes, the first of which is 1, (points,).
            step_s: step times in units of `unit_s`, (…, points).
            steps: numbers of steps, (…, points).
        """
        seconds = step_s * self.unit_s * steps
        if self.objective == "efficiency":
            return seconds[..., :1] / (nodes * seconds)
        seconds = seconds + self.startup_s
        if self.objective.endswith("cost"):
            seconds = seconds * nodes * (self.price or 1.0) / _HOUR_S
        elif self.objective == "energy":
            seconds = seconds * nodes * (self.watts or 1.0) / _HOUR_S
        return seconds / seconds[..., :1] if self.relative else seconds

    def best(self, values: Floats, nodes: Counts) -> NDArray[np.intp]:
        """Return the index of the best point of `values`, (…, points): shape (…)."""
        if self.objective == "efficiency":
            enough = values >= self.least_efficiency  # always true for one node
            return np.asarray(values.shape[-1] - 1 - np.argmax(enough[..., ::-1], axis=-1))
        values = self._costs(values, nodes)
        least = values.min(axis=-1, keepdims=True)
        return np.asarray(np.argmax(values <= (1 + _ALIKE) * least, axis=-1))  # first: fewest nodes

    def _costs(self, values: Floats, nodes: Counts) -> Floats:
        """Return the values to minimise: with a deadline, the cost of numbers that meet it.

        Numbers that miss the deadline are infinite. If all miss it, the values are the times.
        """
        if self.objective != "deadline":
            return values
        in_time = self.meets(values)
        late = ~in_time.any(axis=-1, keepdims=True)
        return np.where(late, values, np.where(in_time, values * nodes, np.inf))

    def meets(self, values: Floats) -> NDArray[np.bool_]:
        """Return which values meet the deadline; without a deadline, all do."""
        if self.objective != "deadline" or self.deadline_s is None:
            return np.ones(values.shape, dtype=bool)
        return np.asarray(values <= self.deadline_s)

    def beats_one(self, nodes: Counts, values: Floats) -> NDArray[np.bool_]:
        """Return whether each number does better than one node; for efficiency, if it is faster."""
        if self.objective == "efficiency":
            return np.asarray(values * nodes > 1 + _ALIKE)
        return np.asarray(values < (1 - _ALIKE) * values[..., :1])

    def near(self, values: Floats, nodes: Counts) -> NDArray[np.bool_]:
        """Return which of `values`, (points,), are within 5 % of the best.

        For efficiency, within 5 % of `least_efficiency`. The best is always included.
        """
        best = self.best(values, nodes)
        if self.objective == "efficiency":
            close = np.abs(values / self.least_efficiency - 1) <= NEAR
        else:
            costs = self._costs(values, nodes)
            close = costs <= (1 + NEAR) * costs[best]
        return np.asarray(close | (np.arange(len(values)) == best))

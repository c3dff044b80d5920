"""Answer how many nodes to use, from one table of numbers of nodes.

Step times by a fit, and equally likely draws of them, give the time, cost, energy, speed-up and
efficiency of a job on each number of nodes. An objective is an expression on this table; the best
number of nodes is where it is least. The best batch of a node is where the time is least.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nodewise.core.errors import UserError
from nodewise.core.units import counted, write_duration, write_percent, write_plain
from nodewise.predict.fit import with_interval
from nodewise.predict.points import Floats
from nodewise.predict.steps_to_accuracy import StepsToAccuracy
from nodewise.results.curves import MOST_NODES, Curve

FAR = 2
"""Predictions beyond this multiple of the measured range are extrapolated."""
_MANY_EXAMPLES, _MANY = 1e6, "1M examples"  # the job if the examples of an epoch are unknown
_KNOWN = 0.5  # least share of draws in which steps take time, for an answer
_SURE = 0.9  # chance from which a number of nodes keeps a deadline for sure enough
_ALIKE = 1e-9  # relative differences below this are rounding errors
_HOUR_S = 3600.0
_SEEN = ("fitted", "measured")  # kinds of points within what was measured
_MOST = 1e15


@dataclass(frozen=True, kw_only=True)
class TrainingJob:
    """What is trained, and under which conditions.

    Attributes:
        name: `epoch`, `run` (to an accuracy) or another name for readers.
        examples: examples of an epoch, or of what `name` says. None: those that a curve gives.
        steps: law of the examples of a run to an accuracy. It assumes synchronous training.
        price: of a node-hour, in `currency`; None for costs in node-hours.
        watts: power of a node.
        node: word for a node.
        unknown: beginnings of the names of columns that the measurements do not tell.

    Raises:
        UserError: a value is not allowed.
    """

    name: str = "epoch"
    examples: float | None = None
    epochs: float = 1.0
    steps: StepsToAccuracy | None = None
    price: float | None = None
    currency: str = "currency"
    watts: float | None = None
    deadline_s: float | None = None
    budget: float | None = None
    node: str = "node"
    unknown: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("examples", "epochs", "price", "watts", "deadline_s", "budget"):
            check_amount(name.removesuffix("_s"), getattr(self, name))
        if self.epochs != 1 and self.steps:
            raise UserError("--epochs: has no effect, as the target says how many are needed")

    def with_examples(self, examples: float | None) -> "TrainingJob":
        """Return the job with its name, for epochs of so many examples; many if it is not known.

        Raises:
            UserError: there are several epochs or limits, but the examples are not known.
        """
        asked = {"epochs": self.epochs != 1, "deadline": self.deadline_s, "budget": self.budget}
        given = [option for option, value in asked.items() if value]
        if given and not (examples or self.steps):
            raise UserError(f"--{given[0]}: needs --examples, the examples of an epoch")
        epochs = "epoch" if self.epochs == 1 else f"{self.epochs:,.6g} epochs"
        name = "run" if self.steps else _MANY if examples is None else epochs
        return replace(self, name=name, examples=examples or _MANY_EXAMPLES)

    def of_curve(self, curve: Curve) -> "TrainingJob":
        """Return the job for a curve: a run to an accuracy if its steps are known, else epochs.

        Times that are not in seconds are those of an epoch of one example. Without batches, only
        steps or only examples are timed: of steps, the job is as much as one node does in many.

        Raises:
            UserError: an option is missing, or means nothing without batches.
        """
        examples = self.examples or (curve.examples if curve.in_seconds else None)
        seconds = curve.in_seconds or examples is not None
        asked = self.deadline_s or self.budget or self.steps
        only_steps = not curve.batch_known and curve.clock in ("step_time_s", "steps_per_s")
        if (self.steps and not curve.batch_known) or (only_steps and (asked or self.examples)):
            raise UserError(f"curve {curve.name}: times of examples need batches, it has none")
        if asked and not (seconds if self.steps else examples):
            raise UserError(f"curve {curve.name}: needs --examples, the examples of an epoch")
        unknown = [] if seconds else ["step_s", "samples_per_s"]
        if not curve.batch_known:
            unknown += ["batch", "global_batch", "samples" if only_steps else "step_s"]
        job = replace(self.with_examples(examples if seconds else 1.0), unknown=tuple(unknown))
        if only_steps:  # of the placeholder of a batch
            size = MOST_NODES if curve.shares_batch else 1
            job = replace(job, name=f"1M steps of one {curve.node}", examples=1e6 * size)
        return replace(job, node=curve.node)

    @property
    def units(self) -> dict[str, str]:
        """The unit of each quantity of the table."""
        cost = f"{self.node}-hours" if self.price is None else self.currency
        return {"time": "s", "cost": cost, "energy": "Wh"}

    @property
    def objectives(self) -> list[str]:
        """The objectives for which the conditions suffice."""
        needed = {"deadline": self.deadline_s, "budget": self.budget, "energy": self.watts}
        return [name for name in OBJECTIVES if needed.get(name, 1.0) is not None]


def check_amount(option: str, value: float | None) -> None:
    """Check that an option is above 0 and not absurdly large.

    Raises:
        UserError: it is not.
    """
    if value is not None and not 0 < value <= _MOST:
        option = option.replace("_", "-")
        raise UserError(f"--{option} {value!s:.40}: must be a number above 0, at most {_MOST:g}")


@dataclass(frozen=True)
class Answers:
    """Times, costs and gains of a job on numbers of nodes.

    All quantities have shape (1 + draws, points). The first row is by the fit, the others are
    equally likely.

    Attributes:
        nodes: numbers of nodes, ascending from 1, (points,).
        batch: examples per node and step, (points,).
        step_s: step times in seconds.
        kind: whether a point is `fitted` or `measured`, `predicted` or `forecast` beyond that, or
            `extrapolated`, (points,).
        most_measured: the most measured nodes.
        noise: relative standard deviation of another measurement of a step.
        compared: whether several numbers of nodes were measured, or the links are known: one says
            nothing about others.
    """

    job: TrainingJob
    nodes: Floats
    batch: Floats
    step_s: Floats
    kind: NDArray[np.str_]
    most_measured: int
    noise: float = 0.0
    compared: bool = True

    @cached_property
    def known(self) -> bool:
        """Whether the measurements determine the time of one node, to which others compare."""
        timed = (self.step_s > 0).all(axis=1)
        return bool(self.compared and self.step_s[0, 0] > 0 and timed.mean() >= _KNOWN)

    @cached_property
    def time(self) -> Floats:
        """Seconds of the job.

        Draws in which a step takes no time are left out, if the time of one node is known.
        """
        timed = (self.step_s > 0).all(axis=1) | (np.arange(len(self.step_s)) == 0)
        counting = self.step_s[timed] if self.known else self.step_s
        steps = self.samples[: len(counting)] / (self.nodes * self.batch)
        return np.asarray(counting * steps)

    @cached_property
    def samples(self) -> Floats:
        """Examples of the job; those of a run to a target depend on the global batch."""
        if self.job.steps is None:
            return np.full(self.step_s.shape, (self.job.examples or 1.0) * self.job.epochs)
        return self.job.steps.examples(self.nodes * self.batch, len(self.step_s) - 1)

    @property
    def cost(self) -> Floats:
        """Nodes × hours × price; without a price in node-hours."""
        return np.asarray(self.time / _HOUR_S * self.nodes * (self.job.price or 1.0))

    @property
    def energy(self) -> Floats:
        """Energy of the job in Wh."""
        return np.asarray(self.time / _HOUR_S * self.nodes * (self.job.watts or np.nan))

    @property
    def speedup(self) -> Floats:
        """How many times as fast as on one node the job is done; NaN if one node is unknown."""
        return self.time[:, :1] / self.time if self.known else np.full(self.time.shape, np.nan)

    @property
    def efficiency(self) -> Floats:
        """Speed-up per node."""
        return np.asarray(self.speedup / self.nodes)

    @cached_property
    def chance(self) -> Floats:
        """The share of draws that meet the deadline and the budget, (points,)."""
        return np.asarray(_allowed(self)[1:].mean(axis=0))

    def best(self, objective: str) -> int | None:
        """Return the index of the best number of nodes for an objective of `OBJECTIVES`.

        None if no number is allowed, as with a deadline. Of equal numbers it is the smallest.
        """
        values = OBJECTIVES[objective](self)[0]
        least = values.min()
        if not (self.known and np.isfinite(least)):
            return None
        return int(np.argmax(values <= least + _ALIKE * np.abs(least)))

    @cached_property
    def best_for(self) -> dict[str, int]:
        """The best number of nodes for each objective that has one."""
        found = {name: self.best(name) for name in self.job.objectives}
        return {name: int(self.nodes[at]) for name, at in found.items() if at is not None}

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row per number of nodes: its quantities with 90 % intervals, `chance` and kind."""
        columns: dict[str, object] = {
            "nodes": self.nodes.astype(int),
            "batch_per_worker": self.batch,
            "global_batch": self.nodes * self.batch,
        }
        for name in ("step_s", "samples", "time", "cost", "energy", "speedup", "efficiency"):
            names = (name, f"{name}_low", f"{name}_high")
            columns |= dict(zip(names, with_interval(getattr(self, name)), strict=True))
        table = pd.DataFrame(columns).assign(chance=self.chance, kind=self.kind)
        table["extrapolated"] = table["kind"] == "extrapolated"
        for end, other in (("", ""), ("_low", "_high"), ("_high", "_low")):
            table[f"samples_per_s{end}"] = table["global_batch"] / table[f"step_s{other}"]
        table.loc[:, [name for name in table if str(name).startswith(self.job.unknown)]] = np.nan
        return table

    def rows(self, names: Mapping[str, str] | None = None) -> list[dict[Any, Any]]:
        """Return the rows of the table for JSON, with other `names` of columns; None if unknown."""
        table = self.table.rename(columns=names or {})
        finite = table.replace([np.inf, -np.inf], np.nan).notna()
        return table.astype(object).where(finite, None).to_dict("records")

    def sentence(self, objective: str | None = None) -> str:
        """Return the answer for an objective in at most 30 words.

        By default, it is about the deadline or the budget if there is one, else about the knee.

        Raises:
            UserError: there is no such objective, or it needs an option.
        """
        job, known = self.job, self.job.objectives
        objective = objective or next(x for x in ("deadline", "budget", "knee") if x in known)
        if objective not in known:
            needs = f": needs --{objective.replace('energy', 'watts')}"
            wrong = needs if objective in OBJECTIVES else f": must be one of {', '.join(known)}"
            raise UserError(f"--objective {objective[:40]}{wrong}")
        if not self.compared:
            other = counted(2 if self.most_measured == 1 else 1, job.node)
            return (
                f"Unknown: one measured number of {job.node}s says nothing about others. Measure "
                f"{other} next, or give the links to `nodewise forecast`."
            )
        if not self.known:
            return f"Unknown: the measurements say too little about one {job.node}."
        best = self.best(objective)
        if best is None:
            at = int(np.argmin((self.cost if objective == "budget" else self.time)[0]))
            kept = " and the ".join(name for name in ("deadline", "budget") if name in known)
            return (
                f"No number of {job.node}s compared keeps the {kept}. "
                f"{counted(int(self.nodes[at]), job.node)} {'come' if at else 'comes'} closest: "
                f"{self._told(at)} (chance {write_chance(self.chance[at])})."
            )
        first = counted(int(self.nodes[best]), job.node)
        if self.kind[best] not in _SEEN:
            beyond = self.nodes[best] > self.most_measured
            first += f" ({f'measured up to {self.most_measured}' if beyond else 'predicted'})"
        if objective == "knee":
            return f"{first}{self._to_target(best) if job.steps else self._gain(best)}."
        chance = ""
        if objective in ("deadline", "budget"):
            chance = f", chance {write_chance(self.chance[best])}"
            surer = np.flatnonzero(self.chance >= _SURE)
            if self.chance[best] < _SURE and surer.size:
                at = int(surer[np.argmin(self.cost[0, surer])])
                safe = f"{int(self.nodes[at])}: {write_chance(self.chance[at])}"
                chance += f" ({safe}, {self.write('cost', at)})"
        each = "per" if job.epochs == 1 else "for"
        return f"{first}: {TITLES[objective]}, {self._told(best)} {each} {job.name}{chance}."

    def _told(self, at: int) -> str:
        return f"{self.write('time', at)} and {self.write('cost', at)}"

    def _gain(self, at: int) -> str:
        faster, price = self.speedup[0, at], 1 / self.efficiency[0, at]
        than = "" if self.kind[0] in _SEEN else f" as one {self.job.node} (predicted)"
        adds = f"each further {self.job.node} adds less than half of itself"
        if at == len(self.nodes) - 1:
            adds = "the most that were compared"
        elif at == self.best("fastest"):
            adds = "no other number compared is faster"
        gains = f"{faster:,.1f} times as fast{than} for {price:,.1f} times the price; "
        return f": {gains if at else ''}{adds}"

    def _to_target(self, at: int) -> str:
        reach = "reaches" if self.nodes[at] == 1 else "reach"
        told = f" {reach} the target in {self.write('time', at)}"
        after = min(int(np.searchsorted(self.nodes, 2 * self.nodes[at])), len(self.nodes) - 1)
        if after > at:
            price = float(self.cost[0, after] / self.cost[0, at])
            more = f"{int(self.nodes[after]):,} in {self.write('time', after)}"
            told += f", {more} for {price:,.1f} times the price"
        batch = float(self.nodes[at] * self.batch[at])
        if np.ptp(self.batch) == 0 and self.job.steps:
            one, two = self.job.steps.examples([batch, 2 * batch])[0]
            extra = write_percent(two / one - 1)
            told += f"; twice the batch of {write_plain(batch)} needs {extra} more examples"
        elif np.ptp(self.batch * self.nodes) > 0:  # the best batch of each number
            told += f"; best batch: {write_plain(self.batch[at])} per {self.job.node}"
        return told

    def write(self, quantity: str, at: int) -> str:
        """Return `time`, `cost` or `energy` at an index of the numbers of nodes, with its unit."""
        value, unit = float(self.table[quantity].iloc[at]), self.job.units[quantity]
        return write_duration(value) if unit == "s" else f"{write_plain(value)} {unit}"


def with_best_batch(candidates: Sequence[Answers]) -> Answers:
    """Return the answers with the batch that is done soonest, for each number of nodes by itself.

    The candidates are for the same numbers of nodes, each with another batch of a node.

    Raises:
        UserError: there are several, but it is not known what a larger batch costs.
    """
    if len(candidates) > 1 and candidates[0].job.steps is None:
        raise UserError("--batches: needs --converges-like or --samples-to-target")
    soonest = np.argmin([one.time[0] for one in candidates], axis=0)
    points = np.arange(len(soonest))
    chosen: dict[str, Any] = {
        name: np.array([getattr(one, name) for one in candidates])[soonest, ..., points].T
        for name in ("batch", "step_s", "kind")
    }
    return replace(candidates[0], **chosen)


def write_chance(chance: float) -> str:
    """Format a chance; draws are too few for 0 % and 100 %."""
    if not 0.01 <= chance <= 0.99:
        return "< 1 %" if chance < 0.01 else "> 99 %"
    return write_percent(chance)


def _allowed(answers: Answers) -> NDArray[np.bool_]:
    """Return where the deadline and the budget are met, (1 + draws, points)."""
    deadline, budget = answers.job.deadline_s or np.inf, answers.job.budget or np.inf
    return np.asarray((answers.time <= deadline) & (answers.cost <= budget))


def _knee(answers: Answers) -> Floats:
    """Return values that are least at the knee, (1 + draws, points).

    The knee is the largest number of nodes that still pays: between the number compared before it
    and itself, each node added at least half a node's worth to the speed-up (the time on one node
    over the time on n nodes). Each further node adds less than half of itself. Half is where the
    price of what is gained has doubled. It is one node if none adds as much.
    """
    added = np.diff(answers.speedup, axis=1) / np.diff(answers.nodes)
    pays = np.column_stack([np.ones(len(added), bool), added >= 0.5])
    return np.where(pays, -answers.nodes, np.inf)


STEP_TIME = {"step_s": "step_time_s", "step_s_low": "low", "step_s_high": "high"}
"""How `predict` and `forecast` call step times in JSON."""
OBJECTIVES: Mapping[str, Callable[[Answers], Floats]] = {
    "knee": _knee,
    "fastest": lambda answers: answers.time,
    "cheapest": lambda answers: answers.cost,
    "deadline": lambda answers: np.where(_allowed(answers), answers.cost, np.inf),
    "budget": lambda answers: np.where(_allowed(answers), answers.time, np.inf),
    "energy": lambda answers: answers.energy,
}
"""What the best number of nodes minimises, (1 + draws, points), from the quantities of the table.
Infinite where a number is not allowed."""
TITLES: Mapping[str, str] = {name: name for name in OBJECTIVES} | {
    "deadline": "cheapest within the deadline",
    "budget": "fastest within the budget",
    "energy": "least energy",
}

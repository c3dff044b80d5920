"""The options of questions to a fit.json: numbers of nodes, and conditions of the training."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np

from nodewise.core.errors import UserError
from nodewise.predict.law import Floats
from nodewise.predict.objective import Objective
from nodewise.predict.question import Conditions, Question
from nodewise.predict.steps_to_accuracy import NotEnoughRunsError, StepsToAccuracy, fit_counted
from nodewise.results.csv_file import Number, read_table
from nodewise.results.curves import MOST_NODES, Curve

MOST_NUMBERS = 1_000
_AMOUNT = Number(1, 1e15)


@dataclass(frozen=True, kw_only=True)
class Options(Conditions):
    """Conditions of a training, for all curves of a fit.json.

    Without `batch` and `global_batch`, the measured batches are used. `examples` overrides the
    examples per epoch of the measurements. `critical_batch` gives the steps to an accuracy up to a
    factor.

    Raises:
        UserError: two options contradict each other, or a value is not allowed.
    """

    critical_batch: float | None = None

    def __post_init__(self) -> None:
        if self.batch is not None and self.global_batch is not None:
            raise UserError("--batch and --global-batch: give one of them")
        if self.steps is not None and self.critical_batch is not None:
            raise UserError("--target and --critical-batch: give one of them")
        if not 0 < self.least_efficiency <= 1:
            raise UserError(f"--efficiency {self.least_efficiency:g}: must be above 0, at most 1")
        if self.critical_batch is not None and (self.deadline_s or self.startup_s):
            other = "--deadline" if self.deadline_s else "--startup"
            raise UserError(
                f"--critical-batch and {other}: a critical batch says how much longer training "
                "takes than on one node, not how many seconds; give --target instead"
            )
        for name in ("batch", "global_batch", "examples", "price", "critical_batch", "watts"):
            value = getattr(self, name)
            if value is not None and not 0 < value <= _AMOUNT.most:
                option = name.replace("_", "-")
                raise UserError(
                    f"--{option} {value!s:.40}: must be a number above 0, at most {_AMOUNT.most:g}"
                )

    def batches_of(self, curve: Curve) -> list["Options"]:
        """Return the options for each batch, with either `batch` or `global_batch` set."""
        if self.batch is not None or self.global_batch is not None:
            return [self]
        if curve.global_batch is not None:
            return [replace(self, global_batch=curve.global_batch)]
        return [replace(self, batch=batch) for batch in curve.batches]

    def nodes_of(self, nodes: Sequence[int]) -> list[int]:
        """Return the numbers of nodes on which each node has at least one example.

        Raises:
            UserError: there are none.
        """
        most = self.global_batch or MOST_NODES
        if min(nodes) > most:
            raise UserError(f"--global-batch {most}: is less than an example on each node")
        return [n for n in nodes if n <= most]

    def question(self, objective: Objective, curve: Curve) -> Question:
        """Return the question for an objective.

        Raises:
            UserError: an option that the objective needs is missing.
        """
        steps = None if objective.startswith("epoch") else self._steps()
        if objective.startswith("target") and steps is None:
            raise UserError(f"--objective {objective}: needs --target or --critical-batch")
        for name, needed, option in (
            ("deadline", self.deadline_s, "deadline"),
            ("energy", self.watts, "watts"),
        ):
            if objective == name and needed is None:
                raise UserError(f"--objective {objective}: needs --{option}")
        given = {field.name: getattr(self, field.name) for field in fields(Conditions)}
        given |= {"examples": self._epoch(curve) or 1.0, "steps": steps}
        return Question(
            objective,
            **given,
            unit_s=1.0 if curve.in_seconds or not steps else 1 / (self.examples or 1),
            node=curve.node,
            batch_known=curve.batch_known,
        )

    def _steps(self) -> StepsToAccuracy | None:
        """Return the law of the steps to an accuracy, if any is given."""
        if self.critical_batch is None:
            return self.steps
        both = np.array([[1.0, self.critical_batch]])
        return StepsToAccuracy(1.0, self.critical_batch, both)

    def missing(self, question: Question, curve: Curve) -> str | None:
        """Return a text that says what is missing to answer a question; None if nothing is."""
        if question.to_target:
            if not curve.batch_known:
                return "steps to an accuracy need batches, which the measurements do not have"
            in_seconds = curve.in_seconds or self.examples is not None
            lacks = not in_seconds and (self.steps is not None or self.startup_s > 0)
            return "needs --examples, to know the seconds of a step" if lacks else None
        whole = question.objective in ("deadline", "energy") or self.startup_s > 0
        if whole and question.objective != "efficiency" and self._epoch(curve) is None:
            return "needs --examples, to know the seconds of an epoch"
        return None

    def objectives(self) -> list[Objective]:
        """Return the objectives for which the given options suffice."""
        counted = self.steps is not None or self.critical_batch is not None
        given: list[tuple[Objective, bool]] = [
            ("epoch_time", True),
            ("epoch_cost", self.price is not None),
            ("target_time", counted),
            ("target_cost", self.price is not None and counted),
            ("deadline", self.deadline_s is not None),
            ("energy", self.watts is not None),
            ("efficiency", True),
        ]
        return [objective for objective, known in given if known]

    def unit(self, question: Question, curve: Curve) -> str:
        """Return the unit of the values of a question, for readers."""
        hours = f"{curve.node}-hours"
        names = {"price": "currency", "1": "", "node-hours": hours}
        unit = names.get(question.unit, question.unit)
        per_example = question.objective.startswith("epoch") and self._epoch(curve) is None
        return f"{unit} per example" if per_example else unit

    def _epoch(self, curve: Curve) -> float | None:
        """Return the examples per epoch that fit the curve's times; None if unknown.

        Times that are not in seconds are those of an epoch of one example.
        """
        return (self.examples or curve.examples) if curve.in_seconds else 1.0

    def times(self, curve: Curve, per_step: Floats, examples: Floats) -> tuple[Floats, Floats]:
        """Return the seconds of a step and of an epoch, NaN where unknown.

        Args:
            curve: the curve.
            per_step: step times in the curve's own unit, (points,).
            examples: global batches, (points,).
        """
        epoch = per_step * (self._epoch(curve) or np.nan) / examples
        return per_step / (1.0 if curve.in_seconds else self.examples or np.nan), epoch


def parse_nodes(text: str) -> list[int]:
    """Parse numbers of nodes such as `1-64`, `1,2,4` or `64`; return them in ascending order.

    Raises:
        UserError: the text has another form, or names numbers that are not allowed or too many.
    """
    numbers: set[int] = set()
    for part in text.split(","):
        found = re.fullmatch(r"\s*(\d{1,6})\s*(?:-\s*(\d{1,6})\s*)?", part, re.ASCII)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
        if not 1 <= first <= last <= MOST_NODES:
            raise UserError(
                f"--nodes {text[:40]}: must be numbers from 1 to {MOST_NODES:,} and ranges, "
                "such as 1-64 or 1,2,4,8-16"
            )
        numbers |= set(range(first, last + 1))
    if len(numbers) > MOST_NUMBERS:
        raise UserError(f"--nodes {text[:40]}: at most {MOST_NUMBERS:,} numbers at once")
    return sorted(numbers)


_DURATION = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}


def parse_duration(option: str, text: str) -> float:
    """Parse a duration such as `0s`, `90`, `90s`, `30min`, `2h` or `1d`; return seconds.

    Raises:
        UserError: the text is not a duration, or it is a deadline of 0 s.
    """
    found = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*(s|min|h|d)?\s*", text, re.ASCII)
    seconds = float(found[1]) * _DURATION[found[2] or "s"] if found else np.inf
    if seconds > _AMOUNT.most or (option == "deadline" and seconds == 0):
        raise UserError(f"--{option} {text[:40]}: must be a time such as 90s, 30min, 2h or 1d")
    return seconds


def read_steps(path: Path) -> StepsToAccuracy:
    """Read a CSV file with columns global_batch and steps, and fit the steps to an accuracy.

    Raises:
        UserError: the file is not valid, or has fewer than two global batches.
    """
    header, rows = read_table(path)
    if not {"global_batch", "steps"} <= set(header):
        raise UserError(f"{path}: row 1: must name columns global_batch, steps")
    columns: dict[str, list[float]] = {}
    for name in ("global_batch", "steps"):
        at = header.index(name)
        try:
            columns[name] = [_AMOUNT.read(values[at]) for _, values in rows]
        except ValueError as error:
            raise UserError(f"{path}: column {name}: {error}") from None
    try:
        return fit_counted(columns["global_batch"], columns["steps"])
    except NotEnoughRunsError as error:
        raise UserError(f"{path}: {error}") from None

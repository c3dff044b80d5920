"""The options of `predict`, `optimum`, `next` and `forecast`, and how they are written."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nodewise.core.errors import UserError
from nodewise.predict.answers import Job
from nodewise.predict.steps_to_accuracy import NotEnoughRunsError, StepsToAccuracy, fit_counted
from nodewise.results.csv_file import Number, read_table
from nodewise.results.curves import MOST_NODES, Curve

MOST_NUMBERS = 1_000
MANY_EXAMPLES, MANY = 1e6, "1M examples"
"""The job whose time and cost are told if the examples of an epoch are unknown."""
_AMOUNT = Number(1, 1e15)
_DURATION = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}


@dataclass(frozen=True, kw_only=True)
class Options:
    """Conditions of a training, for all curves of a fit.json.

    Without `batch` and `global_batch`, the measured batches are used. `examples` overrides the
    examples per epoch of the measurements. `critical_batch` gives the steps to an accuracy up to a
    factor. The other options are those of `answers.Job`.

    Raises:
        UserError: two options contradict each other, or a value is not allowed.
    """

    batch: float | None = None
    global_batch: float | None = None
    examples: float | None = None
    steps: StepsToAccuracy | None = None
    critical_batch: float | None = None
    price: float | None = None
    currency: str = ""
    watts: float | None = None
    startup_s: float = 0.0
    deadline_s: float | None = None
    budget: float | None = None
    least_efficiency: float = 0.5

    def __post_init__(self) -> None:
        if self.batch is not None and self.global_batch is not None:
            raise UserError("--batch and --global-batch: give one of them")
        if self.steps is not None and self.critical_batch is not None:
            raise UserError("--target and --critical-batch: give one of them")
        if not 0 < self.least_efficiency <= 1:
            raise UserError(f"--efficiency {self.least_efficiency:g}: must be above 0, at most 1")
        given = {"deadline": self.deadline_s, "startup": self.startup_s, "budget": self.budget}
        for option, value in given.items():
            if self.critical_batch is not None and value:
                raise UserError(
                    f"--critical-batch and --{option}: a critical batch says how much longer "
                    "training takes than on one node, not how many seconds; give --target instead"
                )
        for name in (
            "batch",
            "global_batch",
            "examples",
            "price",
            "critical_batch",
            "watts",
            "budget",
        ):
            value = getattr(self, name)
            if value is not None and not 0 < value <= _AMOUNT.most:
                option = name.replace("_", "-")
                raise UserError(
                    f"--{option} {value!s:.40}: must be a number above 0, at most {_AMOUNT.most:g}"
                )

    def batches(self, curve: Curve) -> Iterator[dict[str, float]]:
        """Yield each batch to answer for, as the arguments of `CurvePredictions.answer`."""
        if self.batch is not None:
            yield {"batch": self.batch}
        elif self.global_batch is not None:
            yield {"global_batch": self.global_batch}
        elif curve.global_batch is not None:
            yield {"global_batch": curve.global_batch}
        else:
            yield from ({"batch": batch} for batch in curve.batches)

    def job(self, curve: Curve) -> Job:
        """Return the job of a curve: a run to an accuracy if its steps are known, else an epoch.

        Times that are not in seconds are those of an epoch of one example.

        Raises:
            UserError: an option is missing.
        """
        steps = self.steps
        if self.critical_batch is not None:
            steps = StepsToAccuracy(
                1.0, self.critical_batch, np.array([[1.0, self.critical_batch]])
            )
        if steps is not None and not curve.batch_known:
            raise UserError(f"curve {curve.name}: steps to an accuracy need batches, it has none")
        examples = self.examples or (curve.examples if curve.in_seconds else None)
        seconds = curve.in_seconds or examples is not None
        lacking = not seconds if steps else examples is None
        if lacking and (self.startup_s or self.deadline_s or self.budget or self.steps):
            raise UserError(f"curve {curve.name}: needs --examples, the examples of an epoch")
        known = examples is not None or not curve.in_seconds
        return Job(
            name="run" if steps else "epoch" if known else MANY,
            examples=examples or (MANY_EXAMPLES if curve.in_seconds else 1.0),
            steps=steps,
            price=self.price,
            currency=self.currency,
            watts=self.watts,
            startup_s=self.startup_s,
            deadline_s=self.deadline_s,
            budget=self.budget,
            least_efficiency=self.least_efficiency,
            node=curve.node,
            step_known=seconds,
        )


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


def parse_price(text: str | None) -> tuple[float | None, str]:
    """Parse a price of a node-hour such as `2.5` or `2.5 EUR`; return it and its currency.

    Without a text there is no price.

    Raises:
        UserError: the text is not a number with at most a word after it.
    """
    if text is None:
        return None, ""
    number, _, currency = text.strip().partition(" ")
    try:
        return float(number), currency.strip()[:20] or "currency"
    except ValueError:
        raise UserError(
            f"--price {text[:40]}: must be a number, such as 2.5 or '2.5 EUR'"
        ) from None


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

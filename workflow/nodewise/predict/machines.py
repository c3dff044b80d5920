"""Compare kinds and numbers of machines for one training: time and cost of each.

How fast another device is follows from published throughputs of one device, which are among the
cases of `data/published/forecast/cases.csv`, with the scatter of their ratios over models.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import Field, ValidationError, model_validator

from nodewise.core.errors import UserError
from nodewise.core.schema import first_error
from nodewise.predict.answers import TrainingJob
from nodewise.predict.cluster_steps import Training
from nodewise.predict.forecast import forecast, forecast_rows, topology_of
from nodewise.predict.question_files import Amount, Count, Question, Row
from nodewise.results.csv_file import read_table
from nodewise.results.published import RATE, published_cases

_LEAST_DEVIATION = 0.25  # of the log of a published speed: clocks, memory, software differ
_DEVICE = re.compile(r"(?:(?:Quadro )?RTX |GTX )?[A-Z]*\d{1,4}(?: Ti)?", re.IGNORECASE)


class Machine(Question):
    """A kind of machine: a row of the user's table.

    Attributes:
        price: what an hour of a machine costs, in `currency`; `2.5 EUR` in the table.
        within, between: links, as for `nodewise forecast`.
        device, speed: the name of its devices, such as V100, or else how fast one is against the
            one that was measured.
    """

    name: Annotated[str, Field(min_length=1, max_length=100)]
    price: Amount
    currency: Annotated[str, Field(max_length=20)] = "currency"
    devices: Count = 1
    within: str | None = None
    between: str | None = None
    device: str | None = None
    speed: Amount | None = None

    @model_validator(mode="before")
    @classmethod
    def _currency(cls, row: Row) -> Row:
        price, _, currency = row.get("price", "").partition(" ")
        return row | {"price": price} | ({"currency": currency} if currency else {})


def read_machines(path: Path) -> list[Machine]:
    """Read a CSV file of machines.

    Raises:
        UserError: the file cannot be read, a row is wrong, or currencies differ.
    """
    header, rows = read_table(path)
    if unknown := [name for name in header if name not in Machine.model_fields]:
        allowed = ", ".join(Machine.model_fields)
        raise UserError(f"{path}: column {unknown[0]!r:.40} is not known; allowed: {allowed}")
    machines = []
    for number, values in rows:
        try:
            machines.append(Machine.model_validate(dict(zip(header, values, strict=False))))
        except ValidationError as error:
            raise UserError(f"{path}: row {number}: {first_error(error)}") from None
    if len(currencies := dict.fromkeys(machine.currency for machine in machines)) > 1:
        raise UserError(f"{path}: prices must have one currency, not {', '.join(currencies)}")
    return machines


def compare_machines(
    machines: Sequence[Machine],
    training: Training,
    nodes: Sequence[int],
    *,
    job: TrainingJob,
    device: str | None = None,
    **asked: Any,  # noqa: ANN401
) -> list[Row]:
    """Return the forecast on kinds and numbers of machines: rows of `forecast_rows`, by cost.

    `speed` is that of a device against the measured one. `best` marks the cheapest of those that
    keep the deadline and the budget of the job by the forecast or, without a deadline but with a
    budget, the fastest. Whole machines are paid for, at their own price. `nodes` are numbers of
    machines, `device` is the name of the measured device, `asked` are batches as for `forecast`.

    Raises:
        UserError: the speed of a device or a link is not known.
    """
    rows: list[Row] = []
    for machine in machines:
        speed, deviation = machine.speed or 1.0, 0.0
        try:
            cluster = topology_of(machine.devices, machine.within, machine.between)
            if machine.speed is None and machine.device is not None:
                speed, deviation = device_speed(machine.device, device)
        except UserError as error:
            raise UserError(f"machine {machine.name}: {str(error).removeprefix('--')}") from None
        scaled = replace(
            training,
            measured={n: rate * speed for n, rate in training.measured.items()},
            scatter=float(np.hypot(training.scatter, deviation)),
        )
        counts = [n * machine.devices for n in nodes]
        priced = replace(job, price=machine.price / machine.devices, currency=machine.currency)
        answers = forecast(cluster, scaled, counts, priced, **asked)
        about: Row = {"machine": machine.name, "currency": machine.currency, "speed": speed}
        about |= dict.fromkeys(("speedup", "speedup_low", "speedup_high"))  # devices differ
        rows += [
            row | about | {"machines": row["nodes"]}
            for row in forecast_rows(answers, machine.devices)
            if row["devices"] in counts
        ]
    deadline, budget = job.deadline_s or np.inf, job.budget or np.inf
    kept = [row for row in rows if row["time"] <= deadline and row["cost"] <= budget]
    goal = "time" if job.budget and not job.deadline_s else "cost"
    best = min(kept, key=itemgetter(goal), default=None)
    return [row | {"best": row is best} for row in sorted(rows, key=itemgetter("cost"))]


def device_speed(device: str, other: str | None) -> tuple[float, float]:
    """Return how fast a device is against another in published trainings of the same models.

    Returns:
        The median of the ratios of their throughputs, and the deviation of its logarithm.

    Raises:
        UserError: the other device is unknown, or no model was published for both.
    """
    if other is None:
        raise UserError("needs --device, the measured device")
    families = [device_family(device), device_family(other)]
    if families[0] == families[1]:
        return 1.0, 0.0
    one = published_cases().query("n_devices == 1").fillna({"precision": "fp32"})
    one = one.assign(family=one["device"].map(device_family))
    rates = one.pivot_table(RATE, ["model", "precision"], "family", aggfunc="median")
    ratios = rates.reindex(columns=families).dropna()
    if ratios.empty:
        raise UserError(
            f"no published model trained on both {device} and {other}; known devices: "
            f"{', '.join(map(str, rates))}; give the column speed instead"
        )
    logs = pd.Series(np.log(ratios.iloc[:, 0] / ratios.iloc[:, 1]))
    deviation = float(np.hypot(logs.std() if len(logs) > 1 else 0.0, _LEAST_DEVIATION))
    return float(np.exp(logs.median())), deviation


def device_family(device: str) -> str:
    """Return the name of a device without its memory and socket: `V100` of `V100-SXM2-16GB`."""
    found = _DEVICE.search(device)
    return (found[0] if found else device).upper()

"""Compare kinds and numbers of machines for one training: time and cost of each.

How fast another device is follows from published throughputs of one device, which are among the
cases of `data/published/forecast/cases.csv`, with the scatter of their ratios over models.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nodewise.core.errors import UserError
from nodewise.core.schema import first_error
from nodewise.predict.answers import Job
from nodewise.predict.cluster_steps import Cluster, Training
from nodewise.predict.forecast import Given, forecast
from nodewise.results.csv_file import read_table
from nodewise.results.published import forecast_cases

SAME_MODEL, OTHER_MODELS = 0.1, 0.25
"""Least standard deviations of the logarithm of a device's speed, from published ratios of the
same model, or of others: clocks, memory and software differ."""
_DEVICE = re.compile(r"(?:(?:Quadro )?RTX |GTX )?[A-Z]*\d{1,4}(?: Ti)?", re.IGNORECASE)


class Machine(BaseModel):
    """A kind of machine: a row of the user's table.

    Attributes:
        name: its name.
        price: what an hour of a machine costs.
        devices: devices in a machine.
        within, between: links, as for `nodewise forecast`.
        device: the name of its devices, such as V100.
        speed: speed of a device against the one that was measured, in place of `device`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(min_length=1, max_length=100)]
    price: Annotated[float, Field(gt=0, le=1e9)]
    devices: Annotated[int, Field(ge=1, le=10_000)] = 1
    within: str | None = None
    between: str | None = None
    device: str | None = None
    speed: Annotated[float, Field(gt=0, le=1e6)] | None = None


class Speed(NamedTuple):
    """A device's speed against another: the middle, and the deviation of its logarithm."""

    times: float
    deviation: float
    models: int


def read_machines(path: Path) -> list[Machine]:
    """Read a CSV file of machines.

    Raises:
        UserError: the file cannot be read, or a row is wrong.
    """
    header, rows = read_table(path)
    machines = []
    for number, values in rows:
        named = zip(header, values, strict=False)
        given = {name: text for name, text in named if text}
        try:
            machines.append(Machine.model_validate(given))
        except ValidationError as error:
            raise UserError(f"{path}: row {number}: {first_error(error)}") from None
    return machines


def compare_machines(
    machines: Sequence[Machine],
    given: Given,
    training: Training,
    nodes: Sequence[int],
    *,
    job: Job,
    device: str | None = None,
    model: str | None = None,
) -> pd.DataFrame:
    """Return a table of kinds and numbers of machines, by cost: time and cost with 90 % intervals.

    `chance` is that of the deadline and the budget of the job. `best` marks the cheapest of those
    that keep both by the forecast or, without a deadline but with a budget, the fastest.

    Args:
        machines: the kinds of machines.
        given: the measured point.
        training: what is trained.
        nodes: numbers of machines.
        job: the job; its price is replaced.
        device: the name of the measured device.
        model: the name of a published model like the user's.

    Raises:
        UserError: the speed of a device or a link is not known.
    """
    parts = []
    for machine in machines:
        speed = _speed(machine, device, model)
        rates = {n: rate * speed.times for n, rate in given.throughputs.items()}
        off = float(np.hypot(given.scatter, speed.deviation))
        scaled = replace(given, throughputs=rates, scatter=off)
        parts.append(_times(machine, scaled, training, nodes, job).assign(speed=speed.times))
    table = pd.concat(parts, ignore_index=True)
    in_time = table["time"] <= (job.deadline_s or np.inf)
    keeps = in_time & (table["cost"] <= (job.budget or np.inf))
    goal = "time" if job.budget and not job.deadline_s else "cost"
    table["best"] = table.index == table.loc[keeps, goal].idxmin() if keeps.any() else False
    return table.sort_values("cost", ignore_index=True)


def _times(
    machine: Machine, given: Given, training: Training, nodes: Sequence[int], job: Job
) -> pd.DataFrame:
    """Return the rows of one kind of machine. Whole machines are paid for."""
    try:
        cluster = Cluster.of(machine.devices, machine.within, machine.between)
    except UserError as error:
        raise UserError(f"machine {machine.name}: {str(error).removeprefix('--')}") from None
    priced = replace(job, price=machine.price / machine.devices)
    counts = [n * machine.devices for n in nodes]
    table = forecast(cluster, training, given, counts, priced).table
    table = table[table["nodes"].isin(counts)].rename(columns={"nodes": "devices"})
    ends = [f"{name}{end}" for name in ("time", "cost") for end in ("", "_low", "_high")]
    return table[["devices", *ends, "chance", "kind"]].assign(
        machine=machine.name, machines=table["devices"] // machine.devices
    )


def _speed(machine: Machine, device: str | None, model: str | None) -> Speed:
    if machine.speed is not None or machine.device is None:
        return Speed(machine.speed or 1.0, 0.0, 0)
    if device is None:
        raise UserError(f"machine {machine.name}: needs --device, the device that was measured")
    if device_family(device) == device_family(machine.device):
        return Speed(1.0, 0.0, 0)
    return published_speed(machine.device, device, model)


def published_speed(device: str, other: str, model: str | None = None) -> Speed:
    """Return how fast a device is against another in published trainings of the same models.

    Raises:
        UserError: no model was published for both.
    """
    table = _one_device()
    pair = [device_family(device), device_family(other)]
    missing = [name for name in pair if name not in table]
    ratios = table[pair].dropna() if not missing else table.iloc[:0]
    if ratios.empty:
        raise UserError(
            f"no published model trained on both {device} and {other}; known devices: "
            f"{', '.join(map(str, table))}; give the column speed instead"
        )
    logs = pd.Series(np.log(ratios[pair[0]] / ratios[pair[1]]))
    same = [name for name, _ in logs.index if model and _alike(model, name)]
    if model and not any(_alike(model, name) for name, _ in table.index):
        names = sorted({name for name, _ in table.index})
        raise UserError(f"--like {model}: must be like one of {', '.join(names)}")
    if same:
        logs = logs[logs.index.get_level_values("model").isin(same)]
    least = SAME_MODEL if same else OTHER_MODELS
    deviation = float(np.hypot(logs.std() if len(logs) > 1 else 0.0, least))
    return Speed(float(np.exp(logs.median())), deviation, len(logs))


def device_family(device: str) -> str:
    """Return the name of a device without its memory and socket: `V100` of `V100-SXM2-16GB`."""
    found = _DEVICE.search(device)
    return (found[0] if found else device).upper()


def _alike(one: str, other: str) -> bool:
    first, second = (re.sub(r"[^a-z0-9]", "", name.lower()) for name in (one, other))
    return first in second or second in first


@cache
def _one_device() -> pd.DataFrame:
    """Return the median throughput by model and precision (rows) and family of devices."""
    cases = forecast_cases()
    one = cases[cases["n_devices"] == 1]
    one = one.assign(
        family=one["device"].map(device_family), precision=one["precision"].fillna("fp32")
    )
    return one.pivot_table(
        "throughput_samples_per_s", ["model", "precision"], "family", aggfunc="median"
    )

"""Forecast numbers of devices from what is known: one measured point or more, and the cluster.

The formula and its constants are those of `cluster_steps`. `bench/forecast.py` compares forecasts
with published measurements of publishers left out, and with all committed records.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from nodewise.core.errors import UserError
from nodewise.predict.answers import Answers, Job
from nodewise.predict.cluster_links import constants, is_within
from nodewise.predict.cluster_steps import DRAWS, Cluster, Training, forecast_throughputs
from nodewise.predict.forecast_cases import bytes_each
from nodewise.predict.optimum import table_rows
from nodewise.results.convert import convert
from nodewise.results.curve_rows import measurements
from nodewise.results.importers import read_rows
from nodewise.results.tables import build_tables

MOST_DEVICES = 100_000
DISTURBED = 0.075
"""How far a disturbed step time is off: the root mean square of the logarithm of 37 committed
launches that other processes disturbed, against undisturbed launches of the same cells."""
_MOST = {"step-time": 1e7, "throughput": 1e15, "batch": 1e15, "parameters": 1e15}


@dataclass(frozen=True)
class Given:
    """The measured points from which a forecast starts.

    Attributes:
        throughputs: examples per second by number of devices.
        batch: examples per device and step; None if unknown.
        parameters: number of trained parameters; None if unknown.
        cautions: why the numbers may mislead, in words; empty if nothing was seen.
        scatter: how far the throughputs may be off: standard deviation of their logarithm.
        devices_per_node: devices in each node, if the file says so.
    """

    throughputs: Mapping[int, float]
    batch: float | None = None
    parameters: float | None = None
    cautions: str = ""
    scatter: float = 0.0
    devices_per_node: int | None = None


def given_by_numbers(
    devices: int, batch: float | None, step_s: float | None, throughput: float | None
) -> Given:
    """Return the point that options give: a step time with its batch, or a throughput.

    Raises:
        UserError: a value is not allowed, or it is not exactly one of the two.
    """
    named = {"step-time": step_s, "throughput": throughput, "batch": batch}
    for name, value in named.items():
        if value is not None and not 0 < value <= _MOST[name]:
            raise UserError(f"--{name} {value:g}: must be above 0, at most {_MOST[name]:g}")
    if step_s is not None and throughput is None:
        if batch is None:
            raise UserError("--step-time needs --batch, the examples per device and step")
        return Given({devices: devices * batch / step_s}, batch)
    if throughput is None or step_s is not None:
        raise UserError("give one of --step-time, --throughput, --given and --model")
    return Given({devices: throughput}, batch)


def given_by_file(path: Path, devices: int | None = None, batch: float | None = None) -> Given:
    """Return the points of a record, or of a table or log with one curve.

    Of several batches, the one with the most numbers of devices is taken.

    Args:
        path: the file.
        devices: number of devices, where a log does not say it.
        batch: examples per device, where a log does not say it, or the batch to take of a table.

    Raises:
        UserError: the file cannot be read, has several curves, or its record failed.
    """
    if path.suffix == ".json" and path.name != "trainer_state.json":
        return _given_by_record(path)
    rows = read_rows(path)
    if "unit" not in rows and "nodes" not in rows:
        rows = convert([path], {"devices": devices, "batch": batch})
    curves = measurements(rows, path).curves
    if len(curves) > 1:
        named = ", ".join(curve.name for curve in curves[:5])
        raise UserError(f"{path}: has {len(curves)} curves ({named} …); one is needed")
    curve = curves[0]
    if curve.global_batch is not None and len(curve.batches) > 1:
        raise UserError(f"{path}: needs the same batch per device at all points")
    points = {
        one: {p.nodes: p for p in curve.measured if p.batch_per_worker == one}
        for one in curve.batches
    }
    chosen = batch or max(points, key=lambda one: len(points[one]))
    if chosen not in points:
        known = ", ".join(f"{one:g}" for one in points)
        raise UserError(f"{path}: has no batch {chosen:g} per device; it has {known}")
    throughputs = {n: n * chosen / point.step_time for n, point in points[chosen].items()}
    return Given(
        throughputs,
        chosen if curve.batch_known else None,
        curve.payload_bytes / 4 if curve.payload_bytes else None,
        devices_per_node=None if curve.devices_per_host is None else int(curve.devices_per_host),
    )


def _given_by_record(path: Path) -> Given:
    cell = build_tables([path])["cells"].iloc[0]
    if cell["status"] != "ok":
        raise UserError(f"{path}: {cell['status']}: {cell['reason']}")
    nodes, batch = int(cell["nodes"]), float(cell["batch_per_worker"])
    throughputs = {nodes: nodes * batch / float(cell["step_time_s"])}
    cautions = str(cell["flags"])
    scatter = DISTURBED if cautions else 0.0
    return Given(throughputs, batch, float(cell["payload_bytes"]) / 4, cautions, scatter)


def training_of(
    given: Given,
    parameters: float | None,
    payload: float | None,
    precision: str,
    hidden: float | None,
) -> Training:
    """Return what is trained; options go before what the file of the given point says.

    Args:
        given: the given point.
        parameters: number of trained parameters.
        payload: bytes of a gradient, in place of the parameters.
        precision: such as `fp32` or `amp`.
        hidden: the share of the shorter of computing and sending that is hidden, if known.

    Raises:
        UserError: a value is not allowed, or no size of the gradient is known.
    """
    if parameters is not None and payload is not None:
        raise UserError("--parameters and --payload: give one of them")
    each = bytes_each(precision)
    if payload is not None:
        parameters, each = payload / 4, (4.0,)
    elif parameters is None:
        parameters = given.parameters
    if parameters is None:
        raise UserError("needs --parameters or --payload, the size of a gradient")
    if not 0 <= parameters <= _MOST["parameters"]:
        option = "parameters" if payload is None else "payload"
        raise UserError(f"--{option}: must be from 0 to {_MOST['parameters']:g}")
    return Training(parameters, each, given.batch, hidden=hidden)


def cluster_by_options(
    link: str | None,
    within: str | None,
    between: str | None,
    devices_per_node: int | None,
    known_per_node: int | None = None,
) -> Cluster:
    """Return the cluster that options describe. Links that are not stated may be any.

    Args:
        link: short for the only link, within a node or between nodes.
        within: link of a device in its node.
        between: link of a node.
        devices_per_node: devices in each node. Default: `known_per_node`, else one if a link
            between nodes is stated, else all.
        known_per_node: devices in each node as a file says.

    Raises:
        UserError: the options contradict each other, or a link is not known.
    """
    if devices_per_node and known_per_node and devices_per_node != known_per_node:
        told = f"the given points have {known_per_node}"
        raise UserError(f"--devices-per-node {devices_per_node}: {told}")
    names = ("--within", "--between") if link is None else ("--link", "--link")
    if link is not None:
        if within or between:
            raise UserError("--link: is the only link; give --within and --between instead")
        within, between = (link, None) if is_within(link) else (None, link)
    if devices_per_node is None:
        devices_per_node = known_per_node or (1 if between else MOST_DEVICES)
    if not 1 <= devices_per_node <= MOST_DEVICES:
        raise UserError(f"--devices-per-node {devices_per_node}: must be 1 to {MOST_DEVICES:,}")
    return Cluster.of(devices_per_node, within, between, names)


def devices_of(nodes: Sequence[int], devices_per_node: int) -> list[int]:
    """Return the numbers of devices to compare: of full nodes, and powers of two within a node."""
    if devices_per_node == MOST_DEVICES:
        return list(nodes)
    powers = [2**i for i in range(devices_per_node.bit_length()) if 2**i < devices_per_node]
    return [*powers, *(n * devices_per_node for n in nodes)]


def forecast(
    cluster: Cluster, training: Training, given: Given, devices: Sequence[int], job: Job
) -> Answers:
    """Return the answers about a job on numbers of devices. One device is always among them.

    Measured points have no interval, unless they may be off. If the batch is unknown, steps are of
    one example.

    Raises:
        UserError: there is no number of devices that is possible.
    """
    counts = np.unique([1, *given.throughputs, *devices])
    if counts[-1] > MOST_DEVICES:
        raise UserError(f"--nodes: at most {MOST_DEVICES:,} devices can be compared")
    found = forecast_throughputs(cluster, training, given.throughputs, counts.tolist())
    known = np.isin(counts, list(given.throughputs))
    if given.scatter:
        off = np.random.default_rng(1).standard_normal((DRAWS, 1))
        found[1:] *= np.exp(given.scatter * off)
        known = np.zeros_like(known)
    found[:, known] = [given.throughputs[int(n)] for n in counts[known]]
    batch = training.batch or 1.0
    return Answers(
        job=replace(job, step_known=training.batch is not None),
        nodes=counts.astype(float),
        batch=np.full(len(counts), batch),
        step_s=counts * batch / found,
        measured=known,
        far=counts > constants()["checked_devices"],
        most_measured=max(given.throughputs),
        kinds=("measured", "forecast", "extrapolated"),
    )


def forecast_rows(answers: Answers, devices_per_node: int) -> list[dict[str, Any]]:
    """Return one row per number of devices for the JSON output; None for what is not known.

    `kind` is `measured`, `forecast` or, beyond the numbers of devices on which forecasts were
    checked, `extrapolated`.
    """
    examples = answers.job.examples
    return [
        {
            "devices": row["nodes"],
            "nodes": int(np.ceil(row["nodes"] / devices_per_node)),
            "batch_per_device": row["batch_per_worker"] if answers.job.step_known else None,
            "step_time_s": row["step_s"],
            "low": row["step_s_low"],
            "high": row["step_s_high"],
            "samples_per_s": examples / row["time"],
            "samples_per_s_low": examples / row["time_high"],
            "samples_per_s_high": examples / row["time_low"],
            **{name: row[name] for name in _SHOWN},
            "kind": row["kind"],
        }
        for row in table_rows(answers)
    ]


_SHOWN = [
    f"{name}{end}"
    for name in ("time", "cost", "speedup", "efficiency")
    for end in ("", "_low", "_high")
]

"""Forecast numbers of devices from what is known: one measured point or more, and the cluster.

The formula and its constants are those of `cluster_steps`. `bench/forecast.py` compares forecasts
with published measurements of publishers left out, and with all committed records.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from nodewise.core.errors import UserError
from nodewise.predict.answers import STEP_TIME, Answers, Job, check_amount, with_best_batch
from nodewise.predict.cluster_links import constants, link_name, read_link
from nodewise.predict.cluster_steps import DRAWS, Cluster, Training, forecast_throughputs
from nodewise.results.convert import convert
from nodewise.results.curve_rows import measurements
from nodewise.results.importers import read_rows
from nodewise.results.tables import build_tables

MOST_DEVICES = 100_000
"""Devices of a node if there is no link between nodes."""
DISTURBED = 0.075
"""How far a disturbed step time is off: the root mean square of the logarithm of 37 committed
launches that other processes disturbed, against undisturbed launches of the same cells."""


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
    """Return the point that options give: a throughput, or a step time with its batch.

    Raises:
        UserError: a value is not allowed, or the batch of a step time is missing.
    """
    for name, value in (("step-time", step_s), ("throughput", throughput), ("batch", batch)):
        check_amount(name, value)
    if step_s is None:
        return Given({devices: throughput or 0.0}, batch)
    if batch is None:
        raise UserError("--step-time needs --batch, the examples per device and step")
    return Given({devices: devices * batch / step_s}, batch)


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
        cell = build_tables([path])["cells"].iloc[0]
        if cell["status"] != "ok":
            raise UserError(f"{path}: {cell['status']}: {cell['reason']}")
        nodes, size, cautions = int(cell["nodes"]), int(cell["batch_per_worker"]), cell["flags"]
        throughputs = {nodes: nodes * size / float(cell["step_time_s"])}
        parameters = float(cell["payload_bytes"]) / 4
        return Given(throughputs, size, parameters, cautions, DISTURBED if cautions else 0.0)
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
    counts = Counter(point.batch_per_worker for point in curve.measured)
    chosen = batch or counts.most_common(1)[0][0]
    if chosen not in counts:
        known = ", ".join(f"{one:g}" for one in counts)
        raise UserError(f"{path}: has no batch {chosen:g} per device; it has {known}")
    points = [point for point in curve.measured if point.batch_per_worker == chosen]
    throughputs = {point.nodes: point.nodes * chosen / point.step_time_s for point in points}
    return Given(
        throughputs,
        chosen if curve.batch_known else None,
        curve.payload_bytes / 4 if curve.payload_bytes else None,
        devices_per_node=None if curve.devices_per_host is None else int(curve.devices_per_host),
    )


def training_of(
    given: Given,
    *,
    parameters: float | None = None,
    payload: float | None = None,
    precision: str | None = None,
    exchange: str | None = None,
    hidden: float | None = None,
) -> Training:
    """Return what is trained; options go before what the file of the given point says.

    Args:
        given: the given point.
        parameters: number of trained parameters.
        payload: bytes of a gradient, in place of the parameters.
        precision: such as `fp32`, `amp` or `fp16/amp`. Default: 4 bytes.
        exchange: such as `nccl` or `fsdp`. Default: a ring.
        hidden: the share of the shorter of computing and sending that is hidden, if known.

    Raises:
        UserError: a value is not allowed, or no size of the gradient is known.
    """
    check_amount("parameters", parameters)
    check_amount("payload", payload)
    if parameters and payload:
        raise UserError("--parameters and --payload: give one of them")
    each, traffic = _named("precision", precision or "fp32"), _named("exchange", exchange or "ring")
    if payload:
        parameters, each = payload / 4, [4.0]
    parameters = parameters or given.parameters
    if parameters is None:
        raise UserError("needs --parameters or --payload, the size of a gradient")
    return Training(parameters, tuple(each), given.batch, traffic, hidden)


def _named(option: str, text: str) -> Any:  # noqa: ANN401
    """Return the constant of the first known name that is in a text."""
    known = constants()[option]
    for name, value in known.items():
        if name in text.lower():
            return value
    raise UserError(f"--{option} {text[:40]}: must be one of {', '.join(known)}")


def cluster_of(
    devices_per_node: int | None = None,
    within: str | None = None,
    between: str | None = None,
    *,
    link: str | None = None,
    known_per_node: int | None = None,
) -> Cluster:
    """Return the cluster that texts describe. Links that are not stated may be any.

    Args:
        devices_per_node: devices in each node. Default: `known_per_node`, else one if a link
            between nodes is stated, else all.
        within: link of a device in its node.
        between: link of a node.
        link: short for the only link, within a node or between nodes.
        known_per_node: devices in each node as a file says.

    Raises:
        UserError: the texts contradict each other, or a link is not known.
    """
    if devices_per_node and known_per_node and devices_per_node != known_per_node:
        raise UserError(
            f"--devices-per-node {devices_per_node}: the given points have {known_per_node}"
        )
    if link is not None:
        if within or between:
            raise UserError("--link: is the only link; give --within and --between instead")
        inside = link_name(link) in constants()["within"]
        within, between = (link, None) if inside else (None, link)
    per_node = devices_per_node or known_per_node or (1 if between else MOST_DEVICES)
    option = "--link" if link else ""
    return Cluster(
        per_node,
        read_link("within", within or "unknown", option) if per_node > 1 else None,
        read_link("between", between or "unknown", option),
    )


def devices_of(nodes: Sequence[int], devices_per_node: int) -> list[int]:
    """Return the numbers of devices to compare: of full nodes, and powers of two within a node."""
    if devices_per_node == MOST_DEVICES:
        return list(nodes)
    powers = [2**i for i in range(devices_per_node.bit_length()) if 2**i < devices_per_node]
    return [*powers, *(n * devices_per_node for n in nodes)]


def forecast(
    cluster: Cluster,
    training: Training,
    given: Given,
    devices: Sequence[int],
    job: Job,
    *,
    global_batch: float | None = None,
    batches: Sequence[float] = (),
) -> Answers:
    """Return the answers about a job on numbers of devices. One device is always among them.

    Measured points have no interval, unless they may be off. If the batch is unknown, steps are of
    one example.

    Args:
        cluster: the nodes.
        training: what is trained.
        given: the measured points.
        devices: the numbers of devices.
        job: the job.
        global_batch: examples per step of all devices. Default: the batch of a device is fixed.
        batches: batches of a device, of which the best for each number of devices is taken.

    Raises:
        UserError: the batch is unknown, but needed; or there are two kinds of batches.
    """
    if global_batch and batches:
        raise UserError("--batches and --global-batch: give one of them")
    if (job.steps or global_batch) and training.batch is None:
        raise UserError("--converges-like, --samples-to-target, --global-batch: need --batch")
    counts = np.unique([1, *given.throughputs, *devices])
    counts = counts[counts <= (global_batch or np.inf)]
    of_given = training.batch or 1.0
    asked = [np.full(len(counts), batch) for batch in batches or (of_given,)]
    measured = np.array([given.throughputs.get(n, np.nan) for n in counts.tolist()])
    candidates = []
    for batch in [global_batch / counts] if global_batch else asked:
        found = forecast_throughputs(
            cluster,
            training,
            given.throughputs,
            counts.tolist(),
            batches=(batch / of_given).tolist(),
        )
        off = given.scatter * np.random.default_rng(1).standard_normal((DRAWS, 1))
        found[1:] *= np.exp(off)
        known = np.isfinite(measured) & np.isclose(batch, of_given) & (given.scatter == 0)
        unknown = ("step_s", "batch", "global_batch") if training.batch is None else ()
        candidates.append(
            Answers(
                job=replace(job, unknown=unknown),
                nodes=counts.astype(float),
                batch=batch,
                step_s=counts * batch / np.where(known, measured, found),
                kind=np.select(
                    [counts > constants()["checked_devices"], known],
                    ["extrapolated", "measured"],
                    "forecast",
                ),
                most_measured=max(given.throughputs),
            )
        )
    return with_best_batch(candidates)


def forecast_rows(answers: Answers, devices_per_node: int) -> list[dict[str, Any]]:
    """Return one row per number of devices for the JSON output; None for what is not known.

    `kind` is `measured`, `forecast` or, beyond the numbers of devices on which forecasts were
    checked, `extrapolated`.
    """
    names = STEP_TIME | {"nodes": "devices", "batch_per_worker": "batch_per_device"}
    return [
        row | {"nodes": int(np.ceil(row["devices"] / devices_per_node))}
        for row in answers.rows(names)
    ]

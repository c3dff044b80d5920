"""Forecast numbers of devices from what is known: one measured point or more, and the cluster.

The formula and its constants are those of `cluster_steps`. `bench/forecast.py` compares forecasts
with published measurements of publishers left out, and with all committed records.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median, mode
from typing import Any

import numpy as np

from nodewise.core.cell import WATTS_PER_CORE
from nodewise.core.errors import UserError
from nodewise.predict.answers import STEP_TIME, Answers, TrainingJob, check_amount, with_best_batch
from nodewise.predict.cluster_links import constants, link_name, read_link
from nodewise.predict.cluster_steps import Topology, Training, forecast_throughputs
from nodewise.results.convert import convert
from nodewise.results.curves import measurements
from nodewise.results.importers import read_rows
from nodewise.results.posted_numbers import Posted
from nodewise.results.record import read_record
from nodewise.results.tables import cell_row

_ADVICE = ("give `forecast --given-devices`, or import it", "give `forecast --batch`, or import it")
FORECAST_COLUMNS = STEP_TIME | {"nodes": "devices", "batch_per_worker": "batch_per_device"}
"""How forecasts call the columns of `Answers.table`."""
_MOST_DEVICES = 100_000  # of a node, if there is no link between nodes
_DISTURBED = 0.075  # RMS of the logarithm of 37 committed disturbed step times over undisturbed


def read_training(path: Path, devices: int | None = None, batch: float | None = None) -> Training:
    """Return the training of a record, or of a table or log with one curve.

    Of several batches, the one with the most numbers of devices is taken, or all if their global
    batch is the same.

    `devices` and `batch`, examples per device, are taken where a file does not say them; of a table
    with batches, the points with this batch are taken.

    Raises:
        UserError: the file cannot be read, has several curves or others of these, or failed.
    """
    if path.suffix == ".json" and path.name != "trainer_state.json":
        return _training_of_record(path, devices, batch)
    rows = read_rows(path)
    if not {"curve", "nodes"} <= set(rows):
        options = {"devices": None if "nodes" in rows else devices, "batch": batch}
        rows = convert([path], options, advice=_ADVICE)
    elif batch and not {"batch_per_worker", "global_batch"} & set(rows):
        rows = rows.assign(batch_per_worker=batch)
    found = measurements(rows, path)
    curve, count = found.curves[0], len(found.curves)
    if count > 1:
        raise UserError(f"{path}: has {count} curves, such as {curve.name}; one is needed")
    if not curve.in_seconds:
        raise UserError(f"{path}: times of epochs need a column examples, the examples of one")
    strong = batch is None and curve.global_batch is not None
    chosen = batch or mode(point.batch_per_worker for point in curve.measured)
    points = [point for point in curve.measured if strong or point.batch_per_worker == chosen]
    if not points:
        known = ", ".join(f"{one:g}" for one in curve.batches)
        raise UserError(f"{path}: has no batch {chosen:g} per device; it has {known}")
    if devices is not None and [devices] != (counts := [point.nodes for point in points]):
        known = ", ".join(map(str, counts))
        raise UserError(f"--given-devices {devices}: {path} was measured with {known}")
    rates = {one.nodes: one.nodes * one.batch_per_worker / one.step_time_s for one in points}
    return Training(
        curve.payload_bytes / 4 if curve.payload_bytes else None,
        batch=points[0].batch_per_worker if curve.batch_known else None,  # the smallest
        measured=rates,
        strong=strong,
        devices_per_node=None if curve.devices_per_host is None else int(curve.devices_per_host),
        cautions="; ".join(found.notes),
    )


def _training_of_record(path: Path, devices: int | None, batch: float | None) -> Training:
    """Return the training of a record. Its throughput is that of the node's own time."""
    record = read_record(path)
    result, row = record.result, cell_row(record, WATTS_PER_CORE)
    if result is None:
        raise UserError(f"{path}: {row['status']}: {row['reason']}")
    nodes, size, cautions = record.cell.nodes, record.cell.batch, row["flags"]
    for option, asked, own in (("given-devices", devices, nodes), ("batch", batch, size)):
        if asked not in (None, own):
            raise UserError(f"--{option} {asked:g}: {path} was measured with {own}")
    return Training(
        result.payload_bytes / 4,
        batch=size,
        measured={nodes: row["examples_per_s"]},
        scatter=_DISTURBED if cautions else 0.0,
        cautions=cautions,
        input_share=max(one.input_us / max(1, sum(one.step_us)) for one in result.workers),
    )


def read_files(paths: Sequence[Path], batch: float | None) -> tuple[tuple[Posted, ...], Training]:
    """Return the throughputs of runs of one training, medians of repeats, and what else files say.

    The training has the batch of the fewest devices. `batch` is as for `read_training`.

    Raises:
        UserError: a file cannot be read, batches differ, or there is one number of devices.
    """
    runs = [read_training(path, batch=batch) for path in paths]
    measured = [pair for run in runs for pair in run.measured.items()]
    sizes = {(n, run.batch_on(n)) for run in runs for n in run.measured}
    counts = sorted({n for n, _ in sizes})
    weak, strong = (len({round(n**power * b, 6) for n, b in sizes}) == 1 for power in (0, 1))
    if len(counts) == 1 or not (weak or strong):
        raise UserError(f"{paths[0]}: needs two numbers of devices and one batch, of each or all")
    rates = {n: median(rate for count, rate in measured if count == n) for n in counts}
    last = max(runs, key=lambda run: max(run.measured))
    training = replace(last, batch=last.batch and min(sizes)[1], strong=strong)
    return tuple(Posted(n, "samples_per_s", rate) for n, rate in rates.items()), training


def with_options(
    training: Training,
    *,
    parameters: float | None = None,
    precision: str | None = None,
    exchange: str | None = None,
    hidden: float | None = None,
) -> Training:
    """Return a training as options describe it; they go before what a file says.

    Args:
        training: what a file says.
        parameters: number of trained parameters.
        precision: such as `fp32`, `amp` or `fp16/amp`. Default: 4 bytes.
        exchange: such as `nccl` or `fsdp`. Default: a ring.
        hidden: the share of the shorter of computing and sending that is hidden, if known.

    Raises:
        UserError: a value is not allowed.
    """
    check_amount("parameters", parameters)
    if parameters and parameters % 1:
        raise UserError(f"--parameters {parameters:g}: must be a whole number, such as 25.6e6")
    guessed = "" if training.batch else "no --batch, so that the examples of a step are guessed"
    return replace(
        training,
        cautions="; ".join(filter(None, (training.cautions, guessed))),
        parameters=parameters or training.parameters,
        bytes_each=tuple(named_constant("precision", precision or "fp32")),
        traffic=named_constant("exchange", exchange or "ring"),
        hidden=hidden,
    )


def named_constant(option: str, text: str) -> Any:  # noqa: ANN401
    """Return the constant of the first known name that is in a text, such as a precision.

    Raises:
        UserError: there is none.
    """
    known = constants()[option]
    for name, value in known.items():
        if name in text.lower():
            return value
    raise UserError(f"--{option} {text[:40]}: must be one of {', '.join(known)}")


def topology_of(
    devices_per_node: int | None = None,
    within: str | None = None,
    between: str | None = None,
    *,
    link: str | None = None,
    given: int | None = None,
) -> Topology:
    """Return the cluster that texts describe. Links that are not stated may be any.

    Args:
        devices_per_node: devices in each node. Default: one if a link between nodes is stated,
            else all.
        within: link of a device in its node.
        between: link of a node.
        link: short for the only link, within a node if it is such a name, else between nodes.
        given: number of devices that were measured, if an option says it.

    Raises:
        UserError: the texts contradict each other, or a link is not known.
    """
    if within and between and devices_per_node is None:
        raise UserError("--within: needs --devices-per-node beside --between")
    if link is not None:
        if within or between:
            raise UserError("--link: is the only link; give --within and --between instead")
        inside = link_name(link) in constants()["within"]
        within, between = (link, None) if inside else (None, link)
    if between and not devices_per_node and (given or 1) > 1:
        raise UserError("--given-devices: needs --devices-per-node, as they may be in one node")
    per_node = devices_per_node or (1 if between else _MOST_DEVICES)
    return Topology(
        per_node,
        read_link("within", within or "unknown") if per_node > 1 else None,
        read_link("between", between or "unknown"),
    )


def devices_of(nodes: Sequence[int], devices_per_node: int) -> list[int]:
    """Return the numbers of devices to compare: of full nodes, and powers of two within a node."""
    if devices_per_node == _MOST_DEVICES:
        return list(nodes)
    powers = [2**i for i in range(devices_per_node.bit_length()) if 2**i < devices_per_node]
    return [*powers, *(n * devices_per_node for n in nodes)]


def forecast(
    cluster: Topology,
    training: Training,
    devices: Sequence[int],
    job: TrainingJob,
    *,
    global_batch: float | None = None,
    batches: Sequence[float] = (),
) -> Answers:
    """Return the answers about a job on numbers of devices. One device is always among them.

    Measured points have no interval, unless they may be off. If the batch is unknown, steps are of
    one example.

    By default, the batch of a device, or of all of them, is that of the measured points. With a
    `global_batch`, all devices share it; of several `batches` of a device, the best for each number
    is taken.

    Raises:
        UserError: the batch is unknown, but needed; or there are two kinds of batches.
    """
    if global_batch and batches:
        raise UserError("--batches and --global-batch: give one of them")
    if (job.steps or global_batch or batches or training.strong) and training.batch is None:
        raise UserError("targets, --global-batch and --batches: need --batch, as measured")
    size = training.batch or 1.0
    if training.strong and not batches:
        global_batch = global_batch or size * max(training.measured)
    counts = np.unique([1, *training.measured, *devices])
    counts = counts[counts <= (global_batch or np.inf)]
    if not np.isin(devices, counts).any():
        raise UserError("--global-batch: has less than an example for each device")
    if training.batch is None:
        job = replace(job, unknown=("step_s", "batch", "global_batch"))
    far = counts > constants()["checked_devices"]
    candidates, most = [], max(training.measured)
    for asked in [global_batch / counts] if global_batch else batches or (size,):
        batch = np.full(len(counts), asked)
        rates = forecast_throughputs(cluster, training, counts.tolist(), batches=batch.tolist())
        kinds = [np.ptp(rates, axis=0) == 0, far]  # what was measured does not scatter
        kind = np.select(kinds, ["measured", "extrapolated"], "forecast")
        step_s = counts * batch / rates
        candidates.append(Answers(job, counts.astype(float), batch, step_s, kind, most))
    return with_best_batch(candidates)


def forecast_rows(answers: Answers, devices_per_node: int) -> list[dict[str, Any]]:
    """Return one row per number of devices for the JSON output; None for what is not known.

    `kind` is `measured`, `forecast` or, beyond the numbers of devices on which forecasts were
    checked, `extrapolated`.
    """
    return [
        row | {"nodes": int(np.ceil(row["devices"] / devices_per_node))}
        for row in answers.rows(FORECAST_COLUMNS)
    ]

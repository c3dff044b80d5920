"""Commands that need only a few numbers and the links: `forecast` and `explain`."""

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from nodewise.cli import options
from nodewise.core.errors import UserError
from nodewise.core.units import write_number, write_percent, write_plain

if TYPE_CHECKING:
    from nodewise.predict.cluster_steps import Training

_SERVERS = {None: None, "all-reduce": 0, "servers": -1}  # of --sums; -1: some
_BACKEND = os.environ.get("KERAS_BACKEND")  # as the user chose it; main() resets it


@options.app.command("forecast")
def forecast_nodes(
    context: typer.Context,
    *,
    link: options.OnlyLink = None,
    devices_per_node: options.PerNode = None,
    within: options.WithinNode = None,
    between: options.BetweenNodes = None,
    step_time: Annotated[str | None, Option(help="Of a measured step: 0.18 or 180ms.")] = None,
    throughput: Annotated[str | None, Option(help="Or: 608, 152 images/s/device.")] = None,
    given: Annotated[Path | None, Option(help="Or: a record, table or log.")] = None,
    model: Annotated[str | None, Option(help="Or: a model to measure here on one node.")] = None,
    dataset: options.OwnDataset = None,
    given_devices: Annotated[int | None, Option(min=1, help="Devices it was measured on.")] = None,
    batch: Annotated[int | None, Option(min=1, help="Examples per device and step.")] = None,
    global_batch: options.AskedGlobalBatch = None,
    batches: options.Batches = None,
    parameters: options.Parameters = None,
    precision: options.Precision = None,
    exchange: Annotated[str | None, Option(help="ring (default), fsdp, zero3, byteps.")] = None,
    strategy: Annotated[str | None, Option(help="A strategy of this project.")] = None,
    nodes: options.NodeNumbers = "1-16",
    examples: options.EpochExamples = None,
    epochs: options.Epochs = 1,
    price: options.NodePrice = None,
    deadline: options.Deadline = None,
    budget: options.Budget = None,
    converges_like: options.ConvergesLike = None,
    samples_to_target: options.SamplesToTarget = None,
    machines: Annotated[Path | None, Option(help="CSV file of machines to compare.")] = None,
    device: Annotated[str | None, Option(help="The measured device, such as V100.")] = None,
    cases: Annotated[Path | None, Option(help="CSV file of cases, in place of all else.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Forecast times and costs on many devices from one measured point and the links.

    Links in a node: nvlink1 … nvlink5, nvlink-bridge, pcie3 … pcie5, pcie3-no-p2p
    …, or a rate (31.5GB/s). Links of a node: 100gbit-rdma, 8x400gbit-rdma,
    25gbit-tcp, 400gbit-efa, or a rate of unknown transport (100gbit, 250mbit).
    Each can be a file of `nodewise calibrate`, nccl-tests, rccl-tests or
    osu_allreduce. Two or more numbers of devices in --given narrow the forecast.

    JSON is a list with devices, nodes, batch_per_device, step_time_s, low and
    high (90 %), samples_per_s, time, cost, speedup and efficiency (each with _low
    and _high), and kind (measured, forecast, or extrapolated beyond 64 devices).
    The exit code is 1 if the measurement of --model failed.

    With --cases the answer has a row per row of the file, in its order: its
    columns and value, low and high in examples per second, or error. Columns:
    parameters, precision, batch_per_device, devices_per_node, within_kind,
    between_gbit, transport, exchange, baseline_devices, throughput_samples_per_s,
    n_devices. With global_batch and global_batch_asked, the batch of a device may
    differ; with converges_like (and samples_to_target at global_batch, if known)
    a row also has samples and minutes, each with _low and _high.

    With --machines, kinds and numbers of whole machines are compared. Columns:
    name, price (of an hour: 3 or 3 EUR), devices, within, between, and speed or
    device (V100), whose published speed is compared with that of --device.

    Example: nodewise forecast --step-time 0.18 --batch 64 --parameters 25.6e6
    --devices-per-node 8 --within nvlink2 --between 100gbit-rdma --nodes 1-8
    """
    from nodewise.cli import prediction
    from nodewise.predict import forecast, question_files
    from nodewise.predict.machines import compare_machines, read_machines
    from nodewise.predict.published_efficiency import standing
    from nodewise.strategies.declaration import hidden_share

    if cases is not None:
        options.only_options(context, "cases", "as_json")
        prediction.print_values(question_files.forecast_cases(cases), "case", as_json=as_json)
        return
    counts = prediction.parse_nodes(nodes)
    sizes: dict[str, Any] = {"parameters": parameters, "precision": precision, "exchange": exchange}
    hidden = None if strategy is None else hidden_share(strategy)
    training = forecast.with_options(_measured(context.params), hidden=hidden, **sizes)
    job = prediction.job_of(context.params).with_examples(examples)
    asked: dict[str, Any] = {"global_batch": global_batch}
    asked["batches"] = prediction.parse_batches(batches)
    if machines is not None:
        if link or within or between or devices_per_node or price:
            raise UserError("--machines: its file has the links, devices and prices; no options do")
        kinds = read_machines(machines)
        rows = compare_machines(kinds, training, counts, job=job, device=device, **asked)
        options.print_json(rows) if as_json else prediction.print_machines(rows, job)
    else:
        if device:
            raise UserError("--device: has no effect without --machines")
        if not (link or within or between):
            raise UserError("give --link, or --between, or --within")
        inside = devices_per_node or training.devices_per_node
        cluster = forecast.topology_of(inside, within, between, link=link, given=given_devices)
        per_node = cluster.devices_per_node
        job = replace(job, node="node" if per_node == 1 else "device")
        devices = forecast.devices_of(counts, per_node)
        answers = forecast.forecast(cluster, training, devices, job, **asked)
        if as_json:
            options.print_json(forecast.forecast_rows(answers, per_node))
        else:
            typer.echo(answers.sentence())
            prediction.print_answers(answers)
            if not (global_batch or training.strong):  # each device has a batch of its own
                if not job.steps:
                    most, share = int(answers.nodes[-1]), float(answers.efficiency[0, -1])
                    links = within or link, between or link, most > per_node
                    prediction.print_standing(standing(share, most, *links, node=job.node))
                prediction.print_target(job, converges_like)
    if training.cautions:
        typer.echo(f"About the measured time: {training.cautions}.", err=as_json)


def _measured(asked: Mapping[str, Any]) -> "Training":
    """Return what was measured, which exactly one of four options says."""
    from nodewise.predict import cluster_steps, forecast
    from nodewise.results import posted_numbers

    step, rate, file, model = (asked[x] for x in ("step_time", "throughput", "given", "model"))
    if [step, rate, file, model].count(None) != 3:
        raise UserError("give one of --step-time, --throughput, --given and --model")
    dataset, batch, devices = asked["dataset"], asked["batch"], asked["given_devices"]
    if dataset and not model:
        raise UserError("--dataset: has no effect without --model")
    if devices and model:
        raise UserError("--given-devices: has no effect beside --model, which trains on one node")
    if file is not None:
        return forecast.read_training(file, devices, batch)
    if model is None:
        option, unit = ("--throughput", "examples/s") if step is None else ("--step-time", "s")
        read = posted_numbers.read_number(option, rate or step, devices or 1, unit)
        if not (read.rises or read.times_steps):
            raise UserError(f"{read}: must be a rate or the time of a step")
        if not batch and read.clock != "samples_per_s":
            raise UserError(f"{read}: needs --batch, the examples (or tokens) per device and step")
        total = read.devices * batch / read.value if read.times_steps else read.value
        return cluster_steps.Training(None, batch=batch, measured={read.devices: total})
    from nodewise.cluster.leftovers import temporary_folder  # only on Linux

    path = Path(model)
    name = path.stem if path.suffix == ".py" and path.parent.name == "models" else model
    words = ["--strategy", "keras_jax" if _BACKEND == "jax" else "single", "--model", name]
    words += ["--nodes", "1", "--batch", f"{batch or 64}"]
    words += ["--dataset", dataset] if dataset else []
    with temporary_folder() as folder:
        options.run_command("measure", *words, "--out", f"{folder}/record.json")
        return forecast.read_training(Path(folder, "record.json"))


@options.app.command("explain")
def explain_scaling(
    files: Annotated[list[Path] | None, Argument(help="A table, logs or records.")] = None,
    *,
    one: Annotated[str | None, Option(help="The value on few devices, with its unit.")] = None,
    many: Annotated[str | None, Option(help="The value on --devices.")] = None,
    devices: Annotated[int | None, Option(min=1, help="Devices of --many.")] = None,
    one_devices: Annotated[int, Option(min=1, help="Devices of --one: one, or a whole node.")] = 1,
    one_nodes: Annotated[int | None, Option(min=1, help="Nodes of --one, if not full.")] = None,
    at: Annotated[list[str] | None, Option(help="More numbers: 2=95ms; repeatable.")] = None,
    synthetic: Annotated[str | None, Option(help="--many on synthetic data, maybe itself.")] = None,
    no_sync: Annotated[str | None, Option(help="--many again, without exchange.")] = None,
    batch: Annotated[float | None, Option(min=1, help="Examples per device and step.")] = None,
    global_batch: Annotated[float | None, Option(min=1, help="Or: all devices together.")] = None,
    parameters: options.Parameters = None,
    tensors: Annotated[int | None, Option(min=1, help="Gradients sent one by one.")] = None,
    precision: options.Precision = None,
    link: options.OnlyLink = None,
    within: options.WithinNode = None,
    between: options.BetweenNodes = None,
    devices_per_node: options.PerNode = None,
    sums: Annotated[str | None, Option(help="By: all-reduce, servers, servers=2.")] = None,
    cores: Annotated[float | None, Option(min=1, help="Cores of a machine.")] = None,
    cpu: Annotated[bool, Option("--cpu", help="The devices are CPUs.")] = False,
    embedding: Annotated[bool, Option("--embedding", help="The model has an embedding.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Explain why training on many devices is not faster, and what would help.

    Two numbers suffice; each further option helps to tell causes apart. Write
    them as posted: 120ms, 0.12 s/step, 608 images/s, 152 images/s/device,
    5.1 steps/s, 910 s/epoch. Links are those of `nodewise forecast`. Where
    numbers do not decide, the answer names the one measurement that would.

    JSON has causes (name, probability, share of the extra time, low, high),
    decided, normal, measure, remedies (name, for, likely, value, low, high, unit,
    gain), read, implied_gbyte_per_s, efficiency, input_share and sentence.

    Example: nodewise explain --one 120ms --many 210ms --devices 4
    """
    from nodewise.predict import causes, cluster_steps, explain, forecast
    from nodewise.results.posted_numbers import read_number, read_numbers

    if sums and not re.fullmatch(r"all-reduce|servers(=[1-9]\d*)?", sums, re.ASCII):
        raise UserError(f"--sums {sums}: must be all-reduce, servers or servers=2")
    if files and (one or many or devices or at or one_devices > 1):
        raise UserError("give a file, or --one, --many, --devices and what belongs to them")
    if files:
        posted, training = forecast.read_files(files, batch)
    else:
        posted = read_numbers(one, one_devices, many, devices, at or ())
        training = cluster_steps.Training(None, batch=batch)
    first, last = posted[0].devices, posted[-1].devices
    if global_batch:
        if training.batch:
            raise UserError(
                "--batch and --global-batch: give one of them; a file may say the batch"
            )
        training = replace(training, batch=global_batch / first, strong=True)
    if one_nodes is not None and one_nodes > first:
        raise UserError(f"--one-nodes {one_nodes}: must be at most {first}, the fewest devices")
    again = {"synthetic": synthetic, "no-sync": no_sync}
    inside = devices_per_node or training.devices_per_node
    case = causes.Slowdown(
        posted,
        forecast.topology_of(inside, within, between, link=link),
        forecast.with_options(training, parameters=parameters, precision=precision),
        controls={x: read_number(f"--{x}", text, last) for x, text in again.items() if text},
        servers=int(sums.partition("=")[2]) if sums and "=" in sums else _SERVERS[sums],
        tensors=tensors,
        cores=cores,
        embedding=embedding,
        cpu=cpu,
        one_nodes=one_nodes,
        link_told=bool(link or between),
    )
    found = explain.explain(case)
    if as_json:
        options.print_json(found)
        return
    for read in found["read"]:
        typer.echo(f"Read: {read}")
    if rate := found["implied_gbyte_per_s"]:
        bits = write_number(8e9 * rate, "bit/s")
        typer.echo(f"Bytes of the exchange over the extra time: {write_plain(rate)} GB/s ({bits})")
    options.print_table(
        {"Cause": row["name"], "Probability": write_percent(row["probability"])}
        | {"Extra time": write_percent(row["share"])}
        | {"90 % interval": f"{write_percent(row['low'])} – {write_percent(row['high'])}"}
        for row in found["causes"]
        if row["probability"] >= 0.005
    )
    options.print_table(
        {"Remedy": row["name"], "If the cause is": row["for"] or ""}
        | {"Forecast": f"{write_plain(row['value'])} {row['unit']}"}
        | {"90 % interval": f"{write_plain(row['low'])} – {write_plain(row['high'])}"}
        | {"Gain": f"{row['gain']:.2f}×"}
        for row in found["remedies"]
    )
    typer.echo(found["sentence"])

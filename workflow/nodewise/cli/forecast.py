"""The command that forecasts many devices from one measured point and the links."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from nodewise.cli import options
from nodewise.core.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nodewise.predict.cluster_steps import Training

_BACKEND = os.environ.get("KERAS_BACKEND")  # as the user chose it; main() resets it


@options.app.command("forecast")
def forecast_nodes(
    context: typer.Context,
    *,
    link: options.OnlyLink = None,
    devices_per_node: options.PerNode = None,
    within: options.WithinNode = None,
    between: options.BetweenNodes = None,
    step_time: Annotated[float | None, Option(help="Seconds of a measured step.")] = None,
    throughput: Annotated[float | None, Option(help="Or: examples per second.")] = None,
    given: Annotated[Path | None, Option(help="Or: a record, table or log.")] = None,
    model: Annotated[str | None, Option(help="Or: a model to measure here on one node.")] = None,
    dataset: options.OwnDataset = None,
    given_devices: Annotated[int | None, Option(min=1, help="Devices it was measured on.")] = None,
    batch: Annotated[int | None, Option(min=1, help="Examples per device and step.")] = None,
    global_batch: options.AskedGlobalBatch = None,
    batches: options.Batches = None,
    parameters: options.Parameters = None,
    payload: options.Payload = None,
    precision: options.Precision = "fp32",
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

    A link can also be a file: of `nodewise calibrate`, or what nccl-tests,
    rccl-tests or osu_allreduce printed. Then the measured link decides. Two or more
    numbers of devices in --given narrow the forecast down.

    JSON is a list with devices, nodes, batch_per_device, step_time_s, low and high
    (90 %), samples_per_s, time, cost, speedup and efficiency (each with _low and
    _high), and kind (measured, forecast, or extrapolated beyond 64 devices).

    With --cases the answer has a row per row of the file, in its order: its columns
    and value, low and high in examples per second, or error. Columns: parameters,
    precision, batch_per_device, devices_per_node, within_kind, between_gbit,
    transport, exchange, baseline_devices, throughput_samples_per_s, n_devices. With
    global_batch and global_batch_asked, the batch of a device may differ; with
    converges_like (and samples_to_target at global_batch, if known) a row also has
    samples and minutes, each with _low and _high.

    With --machines, kinds and numbers of machines are compared, with the published
    speeds of their devices (--device). Whole machines are paid for. Columns:
    name, price (of an hour: 3 or 3 EUR), devices, within, between, and device (V100)
    or speed.

    Exit code: 0 forecast, 1 the measurement failed, 2 an option is wrong.

    Examples: nodewise forecast --step-time 0.18 --batch 64 --parameters 25.6e6
    --devices-per-node 8 --within nvlink2 --between 100gbit-rdma --nodes 1-8

    nodewise forecast --model models/fashion_cnn.py --link 1gbit

    nodewise forecast --throughput 400 --batch 64 --parameters 25.6e6 --price 3
    --between 100gbit-rdma --converges-like resnet
    """
    from nodewise.cli import predict_tables
    from nodewise.predict import forecast
    from nodewise.predict.machines import compare_machines, read_machines
    from nodewise.predict.options import (
        MANY_EXAMPLES,
        parse_batches,
        parse_nodes,
        training_name,
    )
    from nodewise.predict.published_efficiency import standing
    from nodewise.predict.question_files import forecast_cases
    from nodewise.strategies.declaration import hidden_share

    if cases is not None:
        options.only_options(context, "cases", "as_json")
        rows = forecast_cases(cases)
        options.print_json(rows) if as_json else options.print_table(
            predict_tables.value_rows(rows, "case")
        )
        return
    counts = parse_nodes(nodes)
    training = forecast.with_options(
        _measured(context.params),
        parameters=parameters,
        payload=payload,
        precision=precision,
        hidden=None if strategy is None else hidden_share(strategy),
    )
    job = options.job_of(
        context.params,
        examples=examples or MANY_EXAMPLES,
        name=training_name(epochs, known=examples is not None),
    )
    asked: dict[str, Any] = {"global_batch": global_batch, "batches": parse_batches(batches)}
    if machines is not None:
        if link or within or between or devices_per_node or price:
            raise UserError("--machines: its file has the links, devices and prices; no options do")
        kinds = read_machines(machines)
        rows = compare_machines(kinds, training, counts, job=job, device=device, **asked)
        if as_json:
            options.print_json(rows)
        else:
            options.print_table(predict_tables.machines_rows(rows, job))
            typer.echo(predict_tables.best_machines(rows, job))
    else:
        if device:
            raise UserError("--device: has no effect without --machines")
        if not (link or within or between):
            raise UserError("give --link, or --between, or --within")
        inside = devices_per_node or training.devices_per_node
        cluster = forecast.cluster_of(inside, within, between, link=link)
        per_node = cluster.devices_per_node
        job = replace(job, node="node" if per_node == 1 else "device")
        devices = forecast.devices_of(counts, per_node)
        answers = forecast.forecast(cluster, training, devices, job, **asked)
        if as_json:
            options.print_json(forecast.forecast_rows(answers, per_node))
        else:
            typer.echo(answers.sentence())
            options.print_table(predict_tables.answers_rows(answers, marks=True))
            most, share = int(answers.nodes[-1]), float(answers.efficiency[0, -1])
            if found := standing(share, most, within, between, most > per_node, node=job.node):
                typer.echo(found[0])
                options.print_table(predict_tables.published_rows(found[1]))
            options.print_target(job, converges_like)
    if training.cautions:
        typer.echo(f"The measured time may mislead: {training.cautions}.", err=as_json)


def _measured(asked: "Mapping[str, Any]") -> "Training":
    """Return what was measured, which exactly one of four options says.

    A model is measured in another process, because a process that starts workers must not have
    started threads.
    """
    from nodewise.predict.answers import check_amount
    from nodewise.predict.cluster_steps import Training
    from nodewise.predict.forecast import read_training

    numbers = {name: asked[name] for name in ("step_time", "throughput")}
    file, model, dataset, batch = (asked[x] for x in ("given", "model", "dataset", "batch"))
    if [*numbers.values(), file, model].count(None) != 3:
        raise UserError("give one of --step-time, --throughput, --given and --model")
    if dataset and not model:
        raise UserError("--dataset: has no effect without --model")
    if file is not None:
        return read_training(Path(file), asked["given_devices"], batch)
    if model is None:
        for option, value in numbers.items():
            check_amount(option, value)
        if asked["step_time"] and not batch:
            raise UserError("--step-time needs --batch, the examples per device and step")
        count = asked["given_devices"] or 1
        rate = asked["throughput"] or count * batch / asked["step_time"]
        return Training(None, batch=batch, measured={count: rate})
    from nodewise.cluster.leftovers import temporary_folder  # only on Linux

    path = Path(model)
    name = path.stem if path.suffix == ".py" and path.parent.name == "models" else model
    with temporary_folder() as folder:
        record = f"{folder}/record.json"
        strategy = "keras_jax" if _BACKEND == "jax" else "single"
        command = [sys.executable, "-m", "nodewise", "measure", "--strategy", strategy]
        command += ["--model", name, "--nodes", "1", "--batch", f"{batch or 64}", "--out", record]
        command += ["--dataset", dataset] if dataset else []
        done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
        if done.returncode:
            raise typer.Exit(done.returncode)
        return read_training(Path(record))

"""The command that explains why training on many devices is not faster."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from nodewise.cli import options
from nodewise.core.errors import UserError
from nodewise.core.units import write_number, write_percent, write_plain


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
    synthetic: Annotated[str | None, Option(help="--many again, on synthetic data.")] = None,
    no_sync: Annotated[str | None, Option(help="--many again, without exchange.")] = None,
    batch: Annotated[float | None, Option(min=1, help="Examples per device and step.")] = None,
    global_batch: Annotated[float | None, Option(min=1, help="Or: all devices together.")] = None,
    parameters: options.Parameters = None,
    payload: options.Payload = None,
    tensors: Annotated[int | None, Option(min=1, help="Gradients sent one by one.")] = None,
    precision: options.Precision = "fp32",
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
    numbers as they are posted: 120ms, 0.12 s/step, 608 images/s,
    152 images/s/device, 5.1 steps/s, 910 s/epoch. Where they do not decide,
    the answer names the one measurement that would.

    JSON has causes (name, probability, share of the extra time, low, high),
    decided, normal, measure, remedies (name, for, likely, value, low, high, unit,
    gain), read, implied_gbyte_per_s, efficiency and sentence.

    Exit code: 0 answered, 2 an option or a file is wrong.

    Examples: nodewise explain --one 120ms --many 210ms --devices 4

    nodewise explain --one '608 images/s' --one-devices 4 --devices 8
    --many '152 images/s' --devices-per-node 4 --batch 64
    --parameters 25.6e6 --between 10gbit-tcp

    nodewise explain measurements.csv --parameters 25.6e6 --link 25gbit-tcp
    """
    from nodewise.predict.causes import Steps
    from nodewise.predict.cluster_steps import Training
    from nodewise.predict.explain import explain
    from nodewise.predict.forecast import cluster_of, with_options
    from nodewise.predict.posted_numbers import read_files, read_number, read_numbers

    if batch and global_batch:
        raise UserError("--batch and --global-batch: give one of them")
    if sums and not re.fullmatch(r"all-reduce|servers(=[1-9]\d*)?", sums, re.ASCII):
        raise UserError(f"--sums {sums}: must be all-reduce, servers or servers=2")
    if files and (one or many or devices or at or one_devices > 1):
        raise UserError("give a file, or --one, --many, --devices and what belongs to them")
    if one_nodes is not None and one_nodes > one_devices and not files:
        raise UserError(f"--one-nodes {one_nodes}: must be at most --one-devices, {one_devices}")
    if files:
        posted, training = read_files(files)
    else:
        posted, training = read_numbers(one, one_devices, many, devices, at or ()), Training(None)
    last, count = posted[-1].devices, int((sums or "").partition("=")[2] or -1)
    again = {"synthetic": synthetic, "no-sync": no_sync}
    of_one = batch or (global_batch / posted[0].devices if global_batch else training.batch)
    training = replace(training, batch=of_one)
    inside = devices_per_node or training.devices_per_node
    found = explain(
        Steps(
            posted,
            cluster_of(inside, within, between, link=link),
            with_options(training, parameters=parameters, payload=payload, precision=precision),
            strong=global_batch is not None,
            controls={
                name: read_number(f"--{name}", text, last) for name, text in again.items() if text
            },
            servers={None: None, "all-reduce": 0}.get(sums, count),
            tensors=tensors,
            cores=cores,
            embedding=embedding,
            cpu=cpu,
            one_nodes=one_nodes,
        )
    )
    options.print_json(found) if as_json else _print(found)


def _print(found: dict[str, Any]) -> None:
    """Print what was read, the causes, the remedies, and what to do."""
    for read in found["read"]:
        typer.echo(f"Read: {read}")
    if rate := found["implied_gbyte_per_s"]:
        bits = write_number(8e9 * rate, "bit/s")
        typer.echo(f"Bytes of the exchange over the extra time: {write_plain(rate)} GB/s ({bits})")
    options.print_table(
        {
            "Cause": row["name"],
            "Probability": write_percent(row["probability"]),
            "Extra time": write_percent(row["share"]),
            "90 % interval": f"{write_percent(row['low'])} – {write_percent(row['high'])}",
        }
        for row in found["causes"]
        if row["probability"] >= 0.005
    )
    options.print_table(
        {
            "Remedy": row["name"],
            "If the cause is": row["for"] or "",
            "Forecast": f"{write_plain(row['value'])} {row['unit']}",
            "90 % interval": f"{write_plain(row['low'])} – {write_plain(row['high'])}",
            "Gain": f"{row['gain']:.2f}×",
        }
        for row in found["remedies"]
    )
    typer.echo(found["sentence"])

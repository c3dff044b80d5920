"""Describe a model of the project or a user's own model, and print the description."""

import traceback
from pathlib import Path

import typer

from nodewise.cli.single import data_manifest, prepare
from nodewise.core.cell import SAVED_MODEL, Cell
from nodewise.core.errors import UserError
from nodewise.core.files import check_writable, write_text
from nodewise.core.schema import json_text
from nodewise.measure.environment import settle_environment
from nodewise.models.facts import DESCRIPTIONS, OWN_DESCRIPTIONS, refuse_own
from nodewise.models.registry import check_project, registry
from nodewise.results.model_description import Architecture
from nodewise.study.single import Options, cell_of


def describe_model(
    name: str, dataset: str | None, out: Path | None, manifest: Path | None
) -> tuple[Architecture, Path]:
    """Describe a model, print the description and write it; return it and the path of its file.

    Args:
        name: a model of the project; or, for a user's own model, the function that builds it or its
            saved file.
        dataset: dataset of a user's own model.
        out: the file to write; None for the file that other commands read.
        manifest: manifest of the prepared dataset; None to prepare it.

    Raises:
        UserError: there is no such model, or it cannot be trained.
    """
    own = ":" in name or name.endswith(SAVED_MODEL)
    if not own:
        check_project()
        # Report a wrong name before TensorFlow is loaded, which takes seconds.
        if name not in registry():
            raise UserError(f"unknown model {name!r}; known: {', '.join(sorted(registry()))}")
    cell = cell_of(Options("single", name, 1, 1, dataset))
    path = out or (OWN_DESCRIPTIONS if own else DESCRIPTIONS) / f"{cell.model}.json"
    check_writable(path)
    if own and manifest is None:
        prepare(cell)
    settle_environment()
    described = _own(cell, manifest) if own else _registered(cell)
    write_text(path, json_text(described))
    _print(described)
    return described, path


def describe_or_refuse(name: str, dataset: str | None, out: Path, manifest: Path | None) -> None:
    """Describe a user's own model; if that is not possible, write the reason to `out` instead."""
    try:
        describe_model(name, dataset, out, manifest)
    # Any exception may occur: the user's code runs, called by TensorFlow and Keras.
    except Exception as error:
        reason = str(error)
        if not isinstance(error, UserError):
            traceback.print_exc()
            first, *_ = [*reason.splitlines(), "no more is said"]
            reason = f"{type(error).__name__}: {first}"
        refuse_own(out, reason)
        typer.echo(f"not described: {reason}")


def _registered(cell: Cell) -> Architecture:
    from nodewise.measure.step_memory import measure_memory
    from nodewise.models import describe

    described = describe.describe(cell.model)
    return described.model_copy(update={"memory": measure_memory(cell, None)})


def _own(cell: Cell, manifest: Path | None) -> Architecture:
    from nodewise.data import load
    from nodewise.data.pipeline import batch_spec
    from nodewise.measure.step_memory import BATCHES, measure_memory
    from nodewise.models import describe
    from nodewise.models.training import recipe_of

    prepared = manifest or data_manifest(cell)
    data = load(prepared)
    recipe, most = recipe_of(cell, data), min(data.train_examples, BATCHES[-1])
    specs = [
        batch_spec(cell.model_copy(update={"batch": batch}), data, recipe)
        for batch in describe.COUNTED_BATCHES
    ]
    about = [f"The model of {cell.build}."]
    described = describe.architecture_of(recipe.build(), cell.model, about, specs)
    return described.model_copy(update={"memory": measure_memory(cell, prepared, most)})


def _print(described: Architecture) -> None:
    from nodewise.core.units import write_number

    memory = described.memory
    trained = f"{described.trainable:,} of them trained"
    typer.echo(f"parameters            {described.total:,}, {trained}")
    typer.echo(f"payload               {write_number(described.payload_bytes, 'B')}")
    for title, flops in (
        ("forward, per example", described.flops_per_example),
        ("training, per example", described.training_flops_per_example),
    ):
        typer.echo(f"{title:<21} {write_number(flops, 'FLOP') if flops else 'not defined'}")
    left_out = sorted({kind for layer in described.layers for kind in layer.uncounted})
    if left_out:
        typer.echo(f"not counted           {', '.join(left_out)}")
    if memory is not None:
        for title, size in (
            ("weights", memory.weights_bytes),
            ("gradients", memory.gradients_bytes),
            ("optimizer", memory.optimizer_bytes),
            ("process, whole", memory.fixed_bytes),
            ("and for each example", memory.bytes_per_example),
        ):
            typer.echo(f"{title:<21} {write_number(size, 'B')}")

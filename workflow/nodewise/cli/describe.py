"""Describe a model of the project or a user's own model, and print the description."""

import traceback
from pathlib import Path

import typer

from nodewise.cli.single import data_manifest, prepare
from nodewise.core.cell import SAVED_MODEL, Cell
from nodewise.core.errors import UserError
from nodewise.core.files import check_writable, write_text
from nodewise.core.schema import json_text
from nodewise.core.units import write_number
from nodewise.measure.environment import settle_environment
from nodewise.models.facts import DESCRIPTIONS, OWN_DESCRIPTIONS, refuse_own
from nodewise.models.registry import check_project, registry
from nodewise.results.model_description import Architecture
from nodewise.study.single import Options, cell_of


def describe_model(name: str, dataset: str | None, out: Path | None, manifest: Path | None) -> None:
    """Describe a model, write the description and print its totals.

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
    described = _described(cell, (manifest or data_manifest(cell)) if own else None)
    write_text(path, json_text(described))
    memory = described.memory
    sizes = [f"{described.total:,} parameters"]
    if flops := described.training_flops_per_example:
        sizes.append(f"{write_number(flops, 'FLOP')} to train an example")
    if memory is not None:
        fixed, each = (
            write_number(size, "B") for size in (memory.fixed_bytes, memory.bytes_per_example)
        )
        sizes.append(f"memory {fixed} and for each example {each}")
    typer.echo(f"{path}: {len(described.layers)} layers, {', '.join(sizes)}")


def describe_or_refuse(name: str, dataset: str | None, out: Path, manifest: Path | None) -> None:
    """Describe a user's own model; if that is not possible, write the reason to `out` instead."""
    try:
        describe_model(name, dataset, out, manifest)
    # Any exception may occur: the user's code runs, called by TensorFlow and Keras.
    except Exception as error:
        reason = str(error)
        if not isinstance(error, UserError):
            traceback.print_exc()
            first, *_ = [*reason.splitlines(), "(no message)"]
            reason = f"{type(error).__name__}: {first}"
        refuse_own(out, reason)
        typer.echo(f"not described: {reason}")


def _described(cell: Cell, manifest: Path | None) -> Architecture:
    """Describe the model of a cell; `manifest` is that of the data of a user's own model."""
    from nodewise.measure.step_memory import BATCHES, measure_memory
    from nodewise.models import describe

    if manifest is None:
        described, most = describe.describe(cell.model), BATCHES[-1]
    else:
        from nodewise.data import load
        from nodewise.data.pipeline import batch_spec
        from nodewise.models.training import recipe_of

        data = load(manifest)
        recipe, most = recipe_of(cell, data), min(data.train_examples, BATCHES[-1])
        sizes = [cell.model_copy(update={"batch": batch}) for batch in describe.COUNTED_BATCHES]
        specs = [batch_spec(one, data, recipe) for one in sizes]
        about = [f"The model of {cell.build}."]
        described = describe.architecture_of(recipe.build(), cell.model, about, specs)
    return described.model_copy(update={"memory": measure_memory(cell, manifest, most)})

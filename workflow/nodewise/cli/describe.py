"""Describe a model of the project or a user's own one, and print what was found."""

from pathlib import Path

import typer

from nodewise.cli.single import manifests, prepare
from nodewise.core.cell import SAVED_MODEL
from nodewise.core.errors import UserError
from nodewise.core.files import check_writable, write_text
from nodewise.core.schema import json_text
from nodewise.measure.environment import settle_environment
from nodewise.models.facts import DESCRIPTIONS, OWN_DESCRIPTIONS
from nodewise.models.registry import check_project, registry
from nodewise.results.model_description import Architecture
from nodewise.study.single import Options, cell_of


def describe_model(name: str, dataset: str | None, out: Path | None) -> tuple[Architecture, Path]:
    """Describe a model, print it and write it; return it and its file.

    Raises:
        UserError: there is no such model, or it cannot be trained.
    """
    own = ":" in name or name.endswith(SAVED_MODEL)
    if not own:
        check_project()
        if name not in registry():  # said before TensorFlow is waited for
            raise UserError(f"unknown model {name!r}; known: {', '.join(sorted(registry()))}")
    cell = cell_of(Options("single", name, 1, 1, dataset))
    path = out or (OWN_DESCRIPTIONS if own else DESCRIPTIONS) / f"{cell.model}.json"
    check_writable(path)
    if own:
        prepare(cell)
    settle_environment()
    from nodewise.measure.step_memory import BATCHES, measure_memory
    from nodewise.models import describe

    if own:
        from nodewise.data import load
        from nodewise.data.pipeline import batch_spec
        from nodewise.models.training import recipe_of

        manifest, _ = manifests(cell)
        data = load(manifest)
        recipe, most = recipe_of(cell, data), min(data.train_examples, BATCHES[-1])
        specs = [
            batch_spec(cell.model_copy(update={"batch": batch}), data, recipe)
            for batch in describe.COUNTED_BATCHES
        ]
        about = [f"The model of {cell.build}."]
        described = describe.architecture_of(recipe.build(), cell.model, about, specs)
        memory = measure_memory(cell, manifest, most)
    else:
        described = describe.describe(name)
        memory = measure_memory(cell, None)
    described = described.model_copy(update={"memory": memory})
    write_text(path, json_text(described))
    _print(described)
    return described, path


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

"""Commands that prepare what cells need: data, weights, Horovod and descriptions of models."""

import os
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Argument, Option

from nodewise.cli.options import STEPS, Out, OwnDataset
from nodewise.core.errors import UserError

if TYPE_CHECKING:
    from nodewise.core.cell import Cell
    from nodewise.results.model_description import Architecture

KeepRefusal = Annotated[
    bool, Option("--keep-refusal", help="If your own cannot be used, write the reason instead.")
]

_QUIET = {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}

app = typer.Typer()


@app.command(rich_help_panel=STEPS)
def prepare(
    name: Annotated[str, Argument(help="A known dataset, or path/file.py:function.")],
    out: Out,
    *,
    weights: Annotated[bool, Option("--weights", help="NAME is pretrained weights.")] = False,
    source: Annotated[
        Literal["any", "official"], Option(help="'official': fail instead of using replacements.")
    ] = "any",
    keep_refusal: KeepRefusal = False,
) -> None:
    """Prepare a dataset, or the pretrained weights that a model starts from.

    Files are looked for in data/cache, in the folder NODEWISE_DATASETS and at
    their official addresses, and verified. If there are none, data is synthetic
    and weights are random.

    A function of your own returns (train, test), where test may be None. Each is
    what Keras' fit takes: (x, y) or (x, y, sample_weight) of arrays, or nested
    dicts and tuples of them; a tf.data.Dataset; a keras.utils.PyDataset; or an
    iterable of batches with a length.
    """
    own = ":" in name and not weights
    if own and source == "official":
        raise UserError(f"--source official: {name} is a function of your own")
    files: dict[str, Any] = {
        "cache": Path("data/cache"),
        "mirror": os.environ.get("NODEWISE_DATASETS") or None,
        "source": source,
        "out": out,
    }
    if weights:
        from nodewise.models.weights import prepare as prepare_weights

        pretrained = prepare_weights(name, registry=Path("data/weights.yaml"), **files)
        typer.echo(f"{name}: {pretrained.origin}")
        return
    if own:
        # TensorFlow reads the data. If it saw a GPU, it would allocate the GPU's memory.
        os.environ |= _QUIET
        from nodewise.data import user_data

        try:
            manifest = user_data.prepare(name, out)
        except UserError as error:
            if not keep_refusal:
                raise
            user_data.refuse(name, out, str(error))
            typer.echo(f"{error}; cells that train on it will be refused")
            return
    else:
        from nodewise import data

        manifest = data.prepare(name, registry=Path("data/datasets.yaml"), **files)
    note = f" ({manifest.note})" if manifest.note else ""
    examples = f"{manifest.train_examples} + {manifest.test_examples}"
    typer.echo(f"{name}: {examples}, {manifest.origin}{note}")


@app.command(rich_help_panel=STEPS)
def build_horovod(out: Out) -> None:
    """Build Horovod for the installed TensorFlow. This takes minutes.

    If there is no compiler or no network, the cells that need Horovod are refused.
    """
    from nodewise.strategies.horovod import build as horovod_build

    reason = horovod_build.build(out)
    typer.echo(reason or f"{out}: Horovod {horovod_build.VERSION}")


@app.command(rich_help_panel=STEPS)
def describe_model(
    name: Annotated[str, Argument(help="A model, or path/file.py:function.")],
    *,
    dataset: OwnDataset = None,
    out: Annotated[Path | None, Option(help="Default: data/models or results/models.")] = None,
    manifest: Annotated[Path | None, Option(help="manifest.json of your prepared data.")] = None,
    keep_refusal: KeepRefusal = False,
) -> None:
    """Describe a model: its layers, parameters, operations, and the memory of training it.

    A few steps with several batches are trained, only to measure the memory.
    Other commands read the file data/models/NAME.json; write it again when the
    model changes. Your own models are described by the workflow. Once yours is
    described, `nodewise measure` says before it starts if a batch does not fit
    this machine.
    """
    from nodewise.core.files import check_writable, write_text
    from nodewise.core.schema import json_text
    from nodewise.models.facts import DESCRIPTIONS, OWN_DESCRIPTIONS, refuse_own
    from nodewise.study.single import Options, cell_of

    try:
        cell = cell_of(Options("single", name, 1, 1, dataset))
        path = out or (OWN_DESCRIPTIONS if cell.build else DESCRIPTIONS) / f"{cell.model}.json"
        check_writable(path)
        described = _described(cell, manifest)
    # Any exception may occur: the user's code runs, called by TensorFlow and Keras.
    except Exception as error:
        if not keep_refusal or out is None:
            raise
        reason = str(error)
        if not isinstance(error, UserError):
            traceback.print_exc()
            reason = traceback.format_exception_only(error)[-1].partition("\n")[0]
        refuse_own(out, reason)
        typer.echo(f"not described: {reason}")
        return
    write_text(path, json_text(described))
    typer.echo(f"{path}: {len(described.layers)} layers, {described.total:,} parameters")


def _described(cell: "Cell", manifest: Path | None) -> "Architecture":
    """Describe the model of a cell; a user's own model with the data of the manifest."""
    from nodewise.cli.single import data_manifest, prepare_data
    from nodewise.measure.environment import settle_environment

    if cell.build and manifest is None:
        prepare_data(cell)
        manifest = data_manifest(cell)
    settle_environment()
    os.environ |= _QUIET
    from nodewise.data import load, quiet_tensorflow  # noqa: F401 (quiet: before anything else)
    from nodewise.data.pipeline import batch_spec
    from nodewise.measure.step_memory import BATCHES, measure_memory
    from nodewise.models import describe
    from nodewise.models.training import recipe_of

    if manifest is None:
        described, most = describe.describe(cell.model), BATCHES[-1]
    else:
        data = load(manifest)
        recipe, most = recipe_of(cell), min(data.train_examples, BATCHES[-1])
        sizes = [cell.model_copy(update={"batch": batch}) for batch in describe.COUNTED_BATCHES]
        specs = [batch_spec(one, data, recipe) for one in sizes]
        about = [f"The model of {cell.build}."]
        described = describe.architecture_of(recipe.built(None), cell.model, about, specs)
    return described.model_copy(update={"memory": measure_memory(cell, manifest, most)})

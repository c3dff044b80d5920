"""Commands that prepare what cells need: data, weights, Horovod and descriptions of models."""

import os
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Argument, Option

from nodewise.cli.options import STEPS, OwnDataset, app
from nodewise.core.errors import UserError
from nodewise.core.files import check_writable, write_text

if TYPE_CHECKING:
    from nodewise.core.cell import Cell
    from nodewise.results.model_description import Architecture

KeepRefusal = Annotated[
    bool, Option("--keep-refusal", help="If your own cannot be used, write the reason instead.")
]

_QUIET = {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}


@app.command(rich_help_panel=STEPS)
def prepare(
    name: Annotated[str, Argument(help="A known dataset, path/file.py:function, or horovod.")],
    *,
    weights: Annotated[bool, Option("--weights", help="NAME is pretrained weights.")] = False,
    source: Annotated[
        Literal["any", "official"], Option(help="'official': fail instead of using replacements.")
    ] = "any",
    keep_refusal: KeepRefusal = False,
) -> None:
    """Prepare a dataset, the pretrained weights that a model starts from, or Horovod, in results/.

    Files are looked for in data/cache, in the folder NODEWISE_DATASETS and at
    their official addresses, and verified. If there are none, data is synthetic
    and weights are random.

    A function of your own returns (train, test), where test may be None. Each is
    what Keras' fit takes: (x, y) or (x, y, sample_weight) of arrays, or nested
    dicts and tuples of them; a tf.data.Dataset; a keras.utils.PyDataset; or an
    iterable of batches with a length.

    Horovod is built for the installed TensorFlow, which takes minutes. Without a
    compiler or a network, the cells that need Horovod are refused.
    """
    from nodewise.core.user_function import own_dataset_name, relative_spec
    from nodewise.measure.inputs import WEIGHTS
    from nodewise.study.config import PREPARED

    files: dict[str, Any] = {
        "cache": Path("data/cache"),
        "mirror": os.environ.get("NODEWISE_DATASETS") or None,
        "source": source,
    }
    if name == "horovod":
        from nodewise.strategies.horovod import build as horovod

        typer.echo(horovod.build(horovod.FOLDER) or f"{horovod.FOLDER}: Horovod {horovod.VERSION}")
        return
    if weights:
        from nodewise.models.weights import prepare as prepare_weights

        registry = Path("data/weights.yaml")
        prepared = prepare_weights(name, registry=registry, out=WEIGHTS / name, **files)
        typer.echo(f"{name}: {prepared.origin}")
        return
    if ":" in name:
        if source == "official":
            raise UserError(f"--source official: {name} is a function of your own")
        # TensorFlow reads the data. If it saw a GPU, it would allocate the GPU's memory.
        os.environ |= _QUIET
        from nodewise.data import user_data

        out = PREPARED / own_dataset_name(relative_spec(name))
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

        registry = Path("data/datasets.yaml")
        manifest = data.prepare(name, registry=registry, out=PREPARED / name, **files)
    note = f" ({manifest.note})" if manifest.note else ""
    examples = f"{manifest.train_examples} + {manifest.test_examples}"
    typer.echo(f"{name}: {examples}, {manifest.origin}{note}")


@app.command(rich_help_panel=STEPS)
def describe_model(
    name: Annotated[str, Argument(help="A model, or path/file.py:function.")],
    *,
    dataset: OwnDataset = None,
    keep_refusal: KeepRefusal = False,
) -> None:
    """Describe a model: its layers, parameters, operations, and the memory of training it.

    A few steps with several batches are trained, only to measure the memory.
    Other commands read the file data/models/NAME.json; write it again when the
    model changes. Your own models are described by the workflow, in
    results/models. Once yours is described, `nodewise measure` says before it
    starts if a batch does not fit this machine.
    """
    from nodewise.core.schema import json_text
    from nodewise.models.facts import DESCRIPTIONS, own_description, refuse_own
    from nodewise.study.single import Options, cell_of

    cell = cell_of(Options("single", name, 1, 1, dataset))
    path = own_description(cell) if cell.build else DESCRIPTIONS / f"{cell.model}.json"
    check_writable(path)
    try:
        described = _described(cell, prepared=keep_refusal)
    # Any exception may occur: the user's code runs, called by TensorFlow and Keras.
    except Exception as error:
        if not keep_refusal:
            raise
        reason = str(error)
        if not isinstance(error, UserError):
            traceback.print_exc()
            reason = traceback.format_exception_only(error)[-1].partition("\n")[0]
        refuse_own(path, reason)
        typer.echo(f"not described: {reason}")
        return
    write_text(path, json_text(described))
    typer.echo(f"{path}: {len(described.layers)} layers, {described.total:,} parameters")


def _described(cell: "Cell", *, prepared: bool) -> "Architecture":
    """Describe the model of a cell; a user's own model with its data, unless these are prepared."""
    from nodewise.cli.single import prepare_data
    from nodewise.measure.environment import settle_environment
    from nodewise.measure.inputs import data_manifest

    if cell.build and not prepared:
        prepare_data(cell)
    settle_environment()
    os.environ |= _QUIET
    from nodewise.data import load, quiet_tensorflow  # noqa: F401 (quiet: before anything else)
    from nodewise.data.pipeline import batch_spec
    from nodewise.measure.step_memory import BATCHES, measure_memory
    from nodewise.models import describe
    from nodewise.models.training import recipe_of

    if cell.build is None:
        described, most, manifest = describe.describe(cell.model), BATCHES[-1], None
    else:
        manifest = data_manifest(cell)
        data = load(manifest)
        recipe, most = recipe_of(cell), min(data.train_examples, BATCHES[-1])
        sizes = [cell.model_copy(update={"batch": batch}) for batch in describe.COUNTED_BATCHES]
        specs = [batch_spec(one, data, recipe) for one in sizes]
        about = [f"The model of {cell.build}."]
        described = describe.architecture_of(recipe.built(None), cell.model, about, specs)
    return described.model_copy(update={"memory": measure_memory(cell, manifest, most)})

"""Commands that prepare what cells need: data, weights, Horovod and descriptions of models."""

import os
from pathlib import Path
from typing import Annotated

import typer

from nodewise.cli.options import STEPS, KeepRefusal, Out, OwnDataset, Source
from nodewise.core.errors import UserError

app = typer.Typer()


def mirror() -> str | None:
    """Return the folder of the user's copies of datasets and weights, or None."""
    return os.environ.get("NODEWISE_DATASETS") or None


@app.command(rich_help_panel=STEPS)
def prepare_dataset(
    name: Annotated[str, typer.Argument(help="A dataset of data/datasets.yaml.")],
    out: Out,
    source: Source = "any",
    seed: Annotated[int, typer.Option(help="Seed of synthetic data.")] = 1,
) -> None:
    """Download a dataset, verify it and unpack it; or generate synthetic data.

    Sources in order: data/cache, the mirror in NODEWISE_DATASETS (a folder),
    the official addresses, synthetic data.
    """
    from nodewise import data

    manifest = data.prepare(
        name,
        registry=Path("data/datasets.yaml"),
        cache=Path("data/cache"),
        mirror=mirror(),
        source=source,
        out=out,
        seed=seed,
    )
    note = f" ({manifest.note})" if manifest.note else ""
    examples = f"{manifest.train_examples} + {manifest.test_examples}"
    typer.echo(f"{name}: {examples}, {manifest.origin}{note}")


@app.command(rich_help_panel=STEPS)
def prepare_own_dataset(
    spec: Annotated[str, typer.Argument(help="path/file.py:function or package.module:function.")],
    out: Out,
    keep_refusal: KeepRefusal = False,
) -> None:
    """Prepare a dataset from a function of your own.

    The function returns (train, test), where test may be None. Each is what
    Keras' fit takes: (x, y) or (x, y, sample_weight) of arrays, or nested dicts
    and tuples of them; a tf.data.Dataset; a keras.utils.PyDataset; or an
    iterable of batches with a length.
    """
    # TensorFlow reads the data. If it saw a GPU, it would allocate the GPU's memory.
    os.environ |= {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    from nodewise.data import user_data

    try:
        manifest = user_data.prepare(spec, out)
    except UserError as error:
        if not keep_refusal:
            raise
        user_data.refuse(spec, out, str(error))
        typer.echo(f"{error}; cells that train on it will be refused")
        return
    typer.echo(f"{spec}: {manifest.train_examples} + {manifest.test_examples}, {manifest.origin}")


@app.command(rich_help_panel=STEPS)
def prepare_weights(
    name: Annotated[str, typer.Argument(help="Pretrained weights of data/weights.yaml.")],
    out: Out,
    source: Source = "any",
) -> None:
    """Download and verify the pretrained weights that a model starts from.

    Sources are those of prepare-dataset. If the weights are not available, models
    start from random weights.
    """
    from nodewise.models import weights

    manifest = weights.prepare(
        name,
        registry=Path("data/weights.yaml"),
        cache=Path("data/cache"),
        mirror=mirror(),
        source=source,
        out=out,
    )
    typer.echo(f"{name}: {manifest.origin}")


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
    name: Annotated[
        str, typer.Argument(help="A model of models/, path/file.py:function or a .keras file.")
    ],
    *,
    dataset: OwnDataset = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="JSON file to write; default: in data/models, your own in results/models."
        ),
    ] = None,
    manifest: Annotated[
        Path | None,
        typer.Option(help="For your own model: manifest.json of the data, if it is prepared."),
    ] = None,
    keep_refusal: KeepRefusal = False,
) -> None:
    """Describe a model: its layers, parameters, operations, and the memory of training it.

    A few steps with several batches are trained, only to measure the memory.
    Other commands read the file data/models/NAME.json; write it again when the
    model changes. Your own models are described by the workflow. Once yours is
    described, `nodewise measure` says before it starts if a batch does not fit
    this machine.
    """
    from nodewise.cli import describe

    if not keep_refusal:
        describe.describe_model(name, dataset, out, manifest)
    elif out is None:
        raise UserError("--keep-refusal: needs --out")
    else:
        describe.describe_or_refuse(name, dataset, out, manifest)

"""One command per rule of the workflow, each usable by hand."""

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from nodewise.cli.options import Calibrated, Described, Out, Records, records_of
from nodewise.core.errors import UserError
from nodewise.core.progress import share_done

PANEL = "Steps of the workflow"

app = typer.Typer()


@app.command(rich_help_panel=PANEL)
def prepare_dataset(
    name: Annotated[str, typer.Argument(help="A dataset of data/datasets.yaml.")],
    out: Out,
    source: Annotated[
        Literal["any", "official"],
        typer.Option(help="'official': fail instead of using synthetic or different data."),
    ] = "any",
    seed: Annotated[int, typer.Option(help="Seed of synthetic data.")] = 1,
) -> None:
    """Download a dataset, verify it and unpack it; or generate synthetic data.

    Sources in order: data/cache, the mirror in NODEWISE_DATASETS (a folder or
    URL prefix), the official address, synthetic data.

    Example: nodewise prepare-dataset fashion_mnist --out
    results/datasets/fashion_mnist
    """
    from nodewise import data

    manifest = data.prepare(
        name,
        registry=Path("data/datasets.yaml"),
        cache=Path("data/cache"),
        mirror=os.environ.get("NODEWISE_DATASETS") or None,
        source=source,
        out=out,
        seed=seed,
    )
    note = f" ({manifest.note})" if manifest.note else ""
    examples = f"{manifest.train_examples} + {manifest.test_examples}"
    typer.echo(f"{name}: {examples}, {manifest.origin}{note}")


@app.command(rich_help_panel=PANEL)
def prepare_own_dataset(
    spec: Annotated[str, typer.Argument(help="path/file.py:function or package.module:function.")],
    out: Out,
    keep_refusal: Annotated[
        bool,
        typer.Option(
            "--keep-refusal",
            help="Write why the data cannot be used in place of them: cells are refused with it.",
        ),
    ] = False,
) -> None:
    """Prepare a dataset from a function of your own.

    The function returns (train, test), where test may be None. Each is what
    Keras' fit takes: (x, y) or (x, y, sample_weight) of arrays, or nested dicts
    and tuples of them; a tf.data.Dataset; a keras.utils.PyDataset; or an
    iterable of batches with a length.

    Example: nodewise prepare-own-dataset data/templates/own_data.py:load --out
    results/datasets/own_shapes
    """
    # TensorFlow reads the data; it would fill the memory of a GPU with them
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


@app.command(rich_help_panel=PANEL)
def prepare_weights(
    name: Annotated[str, typer.Argument(help="Pretrained weights of data/weights.yaml.")],
    out: Out,
    source: Annotated[
        Literal["any", "official"],
        typer.Option(help="'official': fail instead of using random weights."),
    ] = "any",
) -> None:
    """Download and verify the pretrained weights that a model starts from.

    Sources in order: data/cache, the mirror in NODEWISE_DATASETS (a folder or
    URL prefix), the official address. If they are not available, models start
    from random weights.

    Example: nodewise prepare-weights resnet50_imagenet --out
    results/weights/resnet50_imagenet
    """
    from nodewise.models import weights

    manifest = weights.prepare(
        name,
        registry=Path("data/weights.yaml"),
        cache=Path("data/cache"),
        mirror=os.environ.get("NODEWISE_DATASETS") or None,
        source=source,
        out=out,
    )
    typer.echo(f"{name}: {manifest.origin}")


@app.command(rich_help_panel=PANEL)
def build_horovod(out: Out) -> None:
    """Build Horovod for the installed TensorFlow. This takes minutes.

    If there is no compiler or no network, the cells that need Horovod are
    refused.

    Example: nodewise build-horovod --out results/horovod
    """
    from nodewise.strategies.horovod import build as horovod_build

    reason = horovod_build.build(out)
    typer.echo(reason or f"{out}: Horovod {horovod_build.VERSION}")


@app.command(rich_help_panel=PANEL)
def describe_model(
    name: Annotated[str, typer.Argument(help="A model of models/, or path/file.py:function.")],
    *,
    dataset: Annotated[
        str | None,
        typer.Option(help="For your own model: a dataset, or path/file.py:function."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="JSON file to write; of your own model by default below results/models."
        ),
    ] = None,
) -> None:
    """Describe a model: its layers, parameters, operations, and the memory of training it.

    A few steps with several batches are trained to measure the memory, nothing
    else. The workflow and other commands read the file data/models/NAME.json.
    Write it again when the model changes. Once your own model is described,
    `nodewise measure` says before it starts if a batch does not fit this machine.

    Example: nodewise describe-model fashion_cnn --out
    data/models/fashion_cnn.json
    """
    from nodewise.cli.describe import describe_model as describe

    described, path = describe(name, dataset, out)
    typer.echo(f"{path}: {len(described.layers)} layers")


@app.command(rich_help_panel=PANEL)
def measure_cell(
    cell_id: Annotated[
        str, typer.Argument(help="Id of the cell: its path below records/, without .json.")
    ],
    *,
    config: Annotated[Path, typer.Option(help="Configuration that declares the cell.")],
    manifest: Annotated[Path, typer.Option(help="manifest.json of the prepared dataset.")],
    out: Annotated[Path, typer.Option("--out", help="The record file to write.")],
    logs: Annotated[Path, typer.Option(help="Folder for the logs of the workers.")],
    weights: Annotated[
        Path | None, typer.Option(help="manifest.json of the pretrained weights, if any.")
    ] = None,
) -> None:
    """Train one cell of a study and write its record.

    Example: nodewise measure-cell
    ntua_steps/fashion_cnn/single/batch~32/nodes~1/repeat~0 --config
    config/study.yaml --manifest results/datasets/fashion_mnist/manifest.json
    --out record.json --logs logs
    """
    from nodewise.measure.cell import measure
    from nodewise.measure.provenance import command
    from nodewise.study.config import read_config

    cells = {cell.id: cell for cell in read_config(config).cells()}
    if cell_id not in cells:
        raise UserError(f"{config}: declares no cell {cell_id!r}")
    with share_done(cell_id) as progress:
        record = measure(
            cells[cell_id],
            manifest,
            weights,
            output=out,
            logs=logs,
            config=config,
            command=command("snakemake", "--cores", "all", "--force", out, "--configfile", config),
            progress=progress,
            on_wait=lambda: typer.echo("another cell is measured on this machine; waiting for it"),
        )
    reason = f": {record.failure.reason}" if record.failure else ""
    typer.echo(f"{cell_id}: {record.status}{reason}")


@app.command(rich_help_panel=PANEL)
def measure_noise_scale(
    model: Annotated[str, typer.Argument(help="A model that the study trains.")],
    *,
    config: Annotated[Path, typer.Option(help="Configuration that declares the model.")],
    manifest: Annotated[Path, typer.Option(help="manifest.json of the prepared dataset.")],
    out: Annotated[Path, typer.Option("--out", help="The result file to write.")],
    weights: Annotated[
        Path | None, typer.Option(help="manifest.json of the pretrained weights, if any.")
    ] = None,
) -> None:
    """Measure the gradient noise scale of a model, from which its critical batch size follows.

    The model trains 200 steps on one node. Gradients are measured before,
    during and after.

    Example: nodewise measure-noise-scale fashion_mlp --config config/study.yaml
    --manifest results/datasets/fashion_mnist/manifest.json --out
    fashion_mlp.json
    """
    from nodewise.core.files import check_writable
    from nodewise.measure.cell import settle_environment
    from nodewise.study.config import read_config

    cells = {cell.model: cell for cell in read_config(config).cells()}
    if model not in cells:
        trained = ", ".join(sorted(cells)) or "none"
        raise UserError(f"{config}: trains no model {model!r}; it trains {trained}")
    check_writable(out)  # said before TensorFlow is waited for
    settle_environment()
    from nodewise.measure.noise_scale import measure_noise_scale as measure_model

    with share_done(f"{model}: noise scale") as progress:
        measure_model(
            cells[model],
            manifest,
            weights,
            output=out,
            config=config,
            progress=progress,
            on_wait=lambda: typer.echo("a cell is measured on this machine; waiting for it"),
        )
    typer.echo(f"{out}: measured")


@app.command(rich_help_panel=PANEL)
def calibrate(
    config: Annotated[Path, typer.Option(help="Configuration of the study.")],
    out: Annotated[Path, typer.Option("--out", help="The result file to write.")],
    logs: Annotated[Path, typer.Option(help="Folder for the logs of the workers.")],
    repeats: Annotated[int, typer.Option(min=1, help="Launches per node count.")] = 2,
) -> None:
    """Measure how well the emulation of nodes holds: CPU shares, links, all-reduces.

    Example: nodewise calibrate --config config/emulated.yaml --out
    results/emulated/calibration/calibration.json --logs
    results/emulated/logs/calibration
    """
    from nodewise.measure.calibrate import calibrate as measure_all

    with share_done(f"{config}: calibration") as progress:
        result = measure_all(
            config,
            output=out,
            logs=logs,
            repeats=repeats,
            progress=progress,
            on_wait=lambda: typer.echo("a cell is measured on this machine; waiting for it"),
        )
    reason = f": {result.failure.reason}" if result.failure else ""
    typer.echo(f"{out}: {result.status}, {len(result.launches)} launches{reason}")


@app.command(rich_help_panel=PANEL)
def build_tables(
    config: Annotated[Path, typer.Option(help="Configuration of the study.")],
    out: Out,
    records: Records = None,
    noise_scales: Annotated[
        list[Path] | None,
        typer.Option(
            "--noise-scale", help="A file from `nodewise measure-noise-scale`; repeatable."
        ),
    ] = None,
) -> None:
    """Collect the records of a study in tables, as CSV and Parquet.

    Example: nodewise build-tables --config config/study.yaml --out
    results/study/tables
    """
    from nodewise.predict.fit_file import check_law
    from nodewise.results import tables
    from nodewise.results.importers import import_for_study, published
    from nodewise.results.table_files import write_tables
    from nodewise.study.config import read_config

    study = read_config(config)
    files = study.record_files(records or records_of(study))
    imported = import_for_study([Path(path) for path in study.curves])
    for curve in imported:
        check_law(curve, "curves")
    built = tables.build_tables(
        files,
        published.ntua(),
        study.watts_per_core,
        published.runs(),
        noise_scales or (),
        imported,
    )
    write_tables(built, out)
    typer.echo(f"{out}: " + ", ".join(f"{name} {len(table)}" for name, table in built.items()))


@app.command(rich_help_panel=PANEL)
def fit_overhead(
    tables: Annotated[Path, typer.Option(help="Folder of the tables.")],
    out: Out,
    calibrations: Calibrated = None,
) -> None:
    """Fit the cost models to measured and published curves.

    Beside the tables there is fit.json, which `nodewise predict` and `nodewise
    optimum` read.

    Example: nodewise fit-overhead --tables results/study/tables --out
    results/study/overhead
    """
    from nodewise.core.files import file_sha256
    from nodewise.predict import queries, study
    from nodewise.predict.fit_curves import fit_curves
    from nodewise.predict.fit_file import study_file, write_fit
    from nodewise.predict.steps_to_accuracy import find_steps
    from nodewise.results.table_files import read_tables

    read = read_tables(tables)
    steps = find_steps(read["epochs"], read["cells"], read["noise_scale"])
    found = fit_curves(read["curve_points"], queries.read_calibrations(calibrations or ()))
    study.write(study.fitted_tables(found, steps), out)
    table = tables / "curve_points.csv"
    write_fit(out / "fit.json", study_file(found, table.name, file_sha256(table)))


@app.command(rich_help_panel=PANEL)
def judge_overhead(
    tables: Annotated[Path, typer.Option(help="Folder of the tables.")],
    out: Out,
    calibrations: Calibrated = None,
) -> None:
    """Test the cost models, and simple baselines, on held-out node counts.

    Example: nodewise judge-overhead --tables results/study/tables --out
    results/study/overhead
    """
    from nodewise.predict import queries, study
    from nodewise.results.table_files import read_tables

    points = read_tables(tables)["curve_points"]
    known = queries.read_calibrations(calibrations or ())
    study.write(study.judge_study(points, known), out)


@app.command(rich_help_panel=PANEL)
def draw_charts(
    *,
    config: Annotated[Path, typer.Option(help="Configuration of the study.")],
    tables: Annotated[Path, typer.Option(help="Folder of the tables.")],
    overhead: Annotated[Path, typer.Option(help="Folder of the fits.")],
    out: Out,
    calibrations: Calibrated = None,
    models: Described = Path("data/models"),
) -> None:
    """Draw every chart: a Vega-Lite specification with its text, the data and an SVG picture.

    Example: nodewise draw-charts --config config/study.yaml --tables
    results/study/tables --overhead results/study/overhead --out results/study/charts
    """
    from nodewise.report import draw

    draw.draw_charts(
        tables,
        overhead,
        out,
        config_path=config,
        calibration_paths=calibrations or (),
        models_dir=models,
    )


@app.command(rich_help_panel=PANEL)
def render_pages(
    config: Annotated[Path, typer.Option(help="Configuration of the study.")],
    results: Annotated[Path, typer.Option(help="Folder of its results.")],
    out: Out,
    calibrations: Calibrated = None,
    models: Described = Path("data/models"),
) -> None:
    """Render the pages of the site as Markdown.

    Example: nodewise render-pages --config config/study.yaml --results
    results/study --out build/docs
    """
    from nodewise.report import render

    render.render_pages(
        config,
        results,
        out,
        calibration_paths=calibrations or (),
        models_dir=models,
    )


@app.command(rich_help_panel=PANEL)
def build_site(
    pages: Annotated[Path, typer.Option(help="Folder from `nodewise render-pages`.")],
    out: Out,
) -> None:
    """Build the site from its pages with MkDocs.

    Example: nodewise build-site --pages build/docs --out build/site
    """
    from nodewise.report import site

    site.build_site(pages, out)

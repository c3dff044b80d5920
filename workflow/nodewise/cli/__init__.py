"""`nodewise …`: one command per rule of the workflow, each usable by hand.

Every command imports what it needs when it runs, so that `--help` and the reporting commands
never wait for TensorFlow.
"""

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from nodewise import __version__
from nodewise.core.errors import UserError, one_line, what_to_mend
from nodewise.core.progress import share_done

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.table import Table

    from nodewise.predict.ask import Row
    from nodewise.study.config import Config

BY_HAND = "Commands"
_INTERRUPTED = 130  # exit code of shells after Ctrl-C
IN_RULES = "Steps of the workflow"

app = typer.Typer(
    name="nodewise",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _tell_version(asked: bool) -> None:
    if asked:
        typer.echo(f"nodewise {__version__}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option(
        "--version", callback=_tell_version, is_eager=True, help="Print the version and exit."
    ),
]


@app.callback()
def about(*, version: Version = False) -> None:
    """How many nodes should train this model, with which strategy, and at what cost?"""


Out = Annotated[Path, typer.Option("--out", help="Folder to write to.")]
Calibrated = Annotated[
    list[Path] | None,
    typer.Option("--calibration", help="A file from `nodewise calibrate`; repeatable."),
]
Records = Annotated[
    Path | None, typer.Option(help="Folder of the records; default: results/STUDY/records.")
]
Described = Annotated[
    Path | None, typer.Option("--models", help="Folder of files from `nodewise describe-model`.")
]
FitFile = Annotated[Path, typer.Argument(help="A file from `nodewise fit`.")]
NodeNumbers = Annotated[str, typer.Option(help="Numbers of nodes, such as 64, 1-64 or 1,2,4,8-16.")]
AskedBatch = Annotated[int | None, typer.Option(min=1, help="Examples per worker and step.")]
AskedGlobalBatch = Annotated[
    int | None, typer.Option(min=1, help="Examples per step over all workers.")
]
Objective = Literal["epoch_time", "target_time", "epoch_cost", "target_cost", "efficiency"]
EpochExamples = Annotated[int | None, typer.Option(min=1, help="Examples per epoch.")]
NodePrice = Annotated[
    float | None, typer.Option(help="Price of one node for one hour; default: costs in node-hours.")
]
CriticalBatch = Annotated[
    float | None,
    typer.Option(help="Global batch that needs twice the minimum number of steps."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@app.command(rich_help_panel=BY_HAND)
def check_config(
    config: Annotated[Path, typer.Argument(help="Configuration, such as config/study.yaml.")],
) -> None:
    """Check the configuration of a study and count its cells.

    Example: nodewise check-config config/study.yaml
    """
    from nodewise.core.units import counted
    from nodewise.study.config import read_config
    from nodewise.study.declared import check_declared

    study = read_config(config)
    check_declared(study)
    if study.records:
        files = study.record_files(Path())
        typer.echo(f"{config}: {counted(len(files), 'cell')}, measured before")
    else:
        cells = counted(len(study.cells()), "cell")
        typer.echo(f"{config}: {cells} in {counted(len(study.experiments), 'experiment')}")


@app.command(rich_help_panel=BY_HAND)
def check_record(
    files: Annotated[list[Path], typer.Argument(help="Record files (JSON).")],
) -> None:
    """Check record files against the schema.

    Example: nodewise check-record results/study/records/*/*/*/*/*/*.json
    """
    from nodewise.results.record import read_record

    for file in files:
        record = read_record(file)
        typer.echo(f"{file}: {record.cell.id}: {record.status}")


@app.command(rich_help_panel=IN_RULES)
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


@app.command(rich_help_panel=IN_RULES)
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


@app.command(rich_help_panel=IN_RULES)
def build_horovod(out: Out) -> None:
    """Build Horovod for the installed TensorFlow. This takes minutes.

    If there is no compiler or no network, the cells that need Horovod are
    refused.

    Example: nodewise build-horovod --out results/horovod
    """
    from nodewise.strategies.horovod import build as horovod_build

    reason = horovod_build.build(out)
    typer.echo(reason or f"{out}: Horovod {horovod_build.VERSION}")


@app.command(rich_help_panel=IN_RULES)
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


@app.command(rich_help_panel=IN_RULES)
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


@app.command(rich_help_panel=IN_RULES)
def prepare_own_dataset(
    spec: Annotated[str, typer.Argument(help="path/file.py:function or package.module:function.")],
    out: Out,
) -> None:
    """Prepare a dataset from a function of your own.

    The function returns NumPy arrays, ((x_train, y_train), (x_test, y_test)),
    or two finite tf.data.Datasets.

    Example: nodewise prepare-own-dataset data/templates/own_data.py:load --out
    results/datasets/own_shapes
    """
    from nodewise.data import user_data

    manifest = user_data.prepare(spec, out)
    typer.echo(f"{spec}: {manifest.train_examples} + {manifest.test_examples}, {manifest.origin}")


@app.command(rich_help_panel=BY_HAND)
def plan(
    config: Annotated[Path, typer.Option(help="Configuration of the study.")] = Path(
        "config/study.yaml"
    ),
    records: Records = None,
) -> None:
    """Estimate how long a study takes on this machine.

    Cells that have a record count as done; their real times correct the
    estimate.

    Example: nodewise plan --config config/paper.yaml
    """
    from nodewise.measure.cell import settle_environment

    settle_environment()  # before NumPy: the reference step is one of a single thread
    from nodewise.study import estimate as planning
    from nodewise.study.config import read_config
    from nodewise.study.declared import check_declared

    study = read_config(config)
    if study.records:
        raise UserError(f"{config}: nothing to measure: its records were measured before")
    check_declared(study)
    machine = planning.Machine.here()
    folder = records or _records_of(study)
    typer.echo(planning.report(study, planning.plan(study, folder, machine), machine))


@app.command(rich_help_panel=BY_HAND)
def gaps(
    config: Annotated[Path, typer.Option(help="Configuration of the study.")] = Path(
        "config/study.yaml"
    ),
    *,
    records: Records = None,
    forget: Annotated[
        bool,
        typer.Option("--forget", help="Remove their records, so that the next run tries again."),
    ] = False,
) -> None:
    """List the failed and refused cells of a study, with the reasons.

    A rerun does not repeat them. After mending the cause, for example by
    installing a compiler, use --forget. It also removes a failed calibration
    and a failed build of Horovod.

    Example: nodewise gaps --forget
    """
    from nodewise.study import missing as missing
    from nodewise.study.config import read_config

    study = read_config(config)
    folder = records or _records_of(study)
    found = missing.gaps(study, folder)
    for line in missing.lines(found):
        typer.echo(line)
    if forget:
        for path in missing.forget(found):
            typer.echo(f"{path}: removed")
    elif found:
        typer.echo(f"To try them again: nodewise gaps --config {config} --forget")


@app.command(rich_help_panel=BY_HAND)
def measure(
    *,
    strategy: Annotated[str, typer.Option(help="A strategy (see `nodewise strategies`).")],
    model: Annotated[
        str, typer.Option(help="A model (see `nodewise models`), or path/file.py:function.")
    ],
    nodes: Annotated[int, typer.Option(help="Number of nodes.")],
    batch: Annotated[int, typer.Option(help="Examples per node and step.")],
    dataset: Annotated[
        str | None,
        typer.Option(help="For your own model: a dataset, or path/file.py:function."),
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Steps to time; default: 40.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Epochs to time instead of steps.")] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="<name=value>", help="An option of the strategy; repeatable."),
    ] = None,
    cluster: Annotated[
        Literal["local", "emulated"], typer.Option(help="Plain processes, or emulated nodes.")
    ] = "local",
    cpu: Annotated[
        float | None, typer.Option(help="Share of a core of an emulated node; default: 0.2.")
    ] = None,
    rate: Annotated[
        float | None, typer.Option(help="Mbit/s of an emulated link, 1 to 34000; default: 100.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The record file; default: below results/by_hand.")
    ] = None,
) -> None:
    """Measure one cell without a study, print the result and write its record.

    Exit code: 0 measured, 1 the cell failed or was refused, 2 an option or a
    file is wrong.

    Example: nodewise measure --strategy multi_worker_mirrored --model
    fashion_cnn --nodes 2 --batch 64 --steps 40
    """
    from rich.console import Console

    from nodewise.cli import single
    from nodewise.core.units import counted

    options = single.Options(
        strategy,
        model,
        nodes,
        batch,
        dataset,
        steps,
        epochs,
        tuple(option or ()),
        cluster,
        cpu,
        rate,
    )
    with share_done(f"{model}, {counted(nodes, 'node')}") as progress:
        record, path = single.measure_by_hand(
            options,
            out,
            progress=progress,
            on_wait=lambda: typer.echo("another cell is measured on this machine; waiting for it"),
        )
    if record.failure is not None:
        typer.echo(f"{path}: {record.status}: {record.failure.reason}")
        raise typer.Exit(1)
    Console().print(single.table(path))


@app.command(rich_help_panel=IN_RULES)
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
    from nodewise.results import tables
    from nodewise.results.importers import published
    from nodewise.study.config import read_config

    study = read_config(config)
    files = study.record_files(records or _records_of(study))
    built = tables.build_tables(
        files, published.ntua(), study.watts_per_core, published.runs(), noise_scales or ()
    )
    tables.write_tables(built, out)
    typer.echo(f"{out}: " + ", ".join(f"{name} {len(table)}" for name, table in built.items()))


@app.command("compare", rich_help_panel=BY_HAND)
def compare_runs(
    old: Annotated[
        Path, typer.Argument(help="Folder with the records or tables of the earlier run.")
    ],
    new: Annotated[Path, typer.Argument(help="Folder with those of the later run.")],
    out: Annotated[Path | None, typer.Option(help="CSV file to write, for the site.")] = None,
) -> None:
    """Compare two runs and show which points differ by more than noise.

    Example: nodewise compare old/tables results/study/tables --out
    results/study/changes.csv
    """
    from nodewise.results import compare_runs as compare
    from nodewise.results.tables import write_csv

    changes = compare.compare(compare.read_cells(old), compare.read_cells(new))
    _print_whole(compare.changes_table(changes))
    if out is not None:
        write_csv(changes, out)


@app.command(rich_help_panel=IN_RULES)
def fit_overhead(
    tables: Annotated[Path, typer.Option(help="Folder of the tables.")],
    out: Out,
    calibrations: Calibrated = None,
) -> None:
    """Fit the cost models to measured and published curves.

    Example: nodewise fit-overhead --tables results/study/tables --out
    results/study/overhead
    """
    from nodewise.predict import queries, study
    from nodewise.predict.steps_to_accuracy import find_steps
    from nodewise.results.tables import read_tables

    read = read_tables(tables)
    curves, cells, published = (read[name] for name in ("curves", "cells", "published"))
    known = queries.read_calibrations(calibrations or ())
    steps = find_steps(read["epochs"], cells, read["noise_scale"])
    study.write(study.fit_study(curves, cells, published, known, steps=steps), out)


@app.command(rich_help_panel=IN_RULES)
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
    from nodewise.results.tables import read_tables

    read = read_tables(tables)
    curves, cells, published = (read[name] for name in ("curves", "cells", "published"))
    known = queries.read_calibrations(calibrations or ())
    study.write(study.judge_study(curves, cells, published, known), out)


@app.command(rich_help_panel=IN_RULES)
def draw_charts(
    tables: Annotated[Path, typer.Option(help="Folder of the tables.")],
    overhead: Annotated[Path, typer.Option(help="Folder of the fits.")],
    out: Out,
    calibrations: Calibrated = None,
    models: Described = None,
) -> None:
    """Draw every chart: a Vega-Lite specification with its text, the data and an SVG picture.

    Example: nodewise draw-charts --tables results/study/tables --overhead
    results/study/overhead --out results/study/charts
    """
    from nodewise.report import figures

    figures.draw_charts(tables, overhead, out, calibrations or (), models)


@app.command(rich_help_panel=IN_RULES)
def render_pages(
    config: Annotated[Path, typer.Option(help="Configuration of the study.")],
    results: Annotated[Path, typer.Option(help="Folder of its results.")],
    out: Out,
    calibrations: Calibrated = None,
    models: Described = None,
) -> None:
    """Render the pages of the site as Markdown.

    Example: nodewise render-pages --config config/study.yaml --results
    results/study --out build/docs
    """
    from nodewise.report import pages

    pages.render_pages(
        config,
        tables_dir=results / "tables",
        overhead_dir=results / "overhead",
        charts_dir=results / "charts",
        records_dir=results / "records",
        site_dir=Path("site"),
        out_dir=out,
        calibration_paths=calibrations or (),
        models_dir=models,
    )


@app.command(rich_help_panel=IN_RULES)
def build_site(
    pages: Annotated[Path, typer.Option(help="Folder from `nodewise render-pages`.")],
    out: Out,
) -> None:
    """Build the site from its pages with MkDocs.

    Example: nodewise build-site --pages build/docs --out build/site
    """
    from nodewise.report import site

    site.build_site(pages, out)


@app.command(rich_help_panel=BY_HAND)
def serve(
    folder: Annotated[Path, typer.Argument(help="Folder of the site.")] = Path("build/site"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free port.")] = 8000,
) -> None:
    """Serve the site to this machine only, until Ctrl+C.

    Example: nodewise serve --port 8080
    """
    from nodewise.cli.serve import server

    with server(folder, port) as serving, suppress(KeyboardInterrupt):
        typer.echo(f"http://127.0.0.1:{serving.server_port}/")
        serving.serve_forever()


@app.command(rich_help_panel=IN_RULES)
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


@app.command(rich_help_panel=BY_HAND)
def doctor(
    cpu: Annotated[
        float, typer.Option(min=0.01, max=1, help="Share of a core of an emulated node.")
    ] = 0.2,
) -> None:
    """Check which kinds of cluster this machine permits, and how to permit more.

    Example: nodewise doctor
    """
    from nodewise.cluster import permits
    from nodewise.cluster.doctor import report

    typer.echo(report(permits.look(), cpu))


@app.command(rich_help_panel=IN_RULES)
def describe_model(
    name: Annotated[str, typer.Argument(help="A model of models/registry.yaml.")],
    out: Annotated[Path, typer.Option("--out", help="JSON file to write.")],
) -> None:
    """Describe a model layer by layer: parameters and operations. Nothing is trained.

    Example: nodewise describe-model fashion_cnn --out
    results/models/fashion_cnn.json
    """
    from nodewise.core.files import check_writable, write_text
    from nodewise.models.registry import registry
    from nodewise.results.model_description import architecture_json

    if name not in registry():  # said before TensorFlow is waited for
        raise UserError(f"unknown model {name!r}; known: {', '.join(sorted(registry()))}")
    check_writable(out)
    from nodewise.models.describe import describe

    described = describe(name)
    write_text(out, architecture_json(described))
    typer.echo(f"{out}: {len(described.layers)} layers, {described.flops_per_example:,} FLOP")


@app.command("models", rich_help_panel=BY_HAND)
def list_models(
    batch: Annotated[
        int, typer.Option(min=1, help="Batch per worker, for the FLOP per byte.")
    ] = 64,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List the models: parameters, payload and operations.

    Example: nodewise models --batch 128
    """
    import json

    from nodewise.cli import list_commands

    rows = list_commands.rows(batch)
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
        return
    _print_whole(list_commands.table(rows))
    typer.echo(list_commands.legend())


@app.command("strategies", rich_help_panel=BY_HAND)
def list_strategies(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List the strategies: numbers of nodes, options and defaults.

    Example: nodewise strategies
    """
    import json

    from nodewise.cli import list_commands

    rows = list_commands.strategy_rows()
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
    else:
        _print_whole(list_commands.strategy_table(rows))


def _records_of(study: "Config") -> Path:
    """Return the folder in which the workflow puts the records of a study that it measures."""
    return Path("results") / study.name / "records"


@app.command("fit", rich_help_panel=BY_HAND)
def fit_measurements(
    measurements: Annotated[Path, typer.Argument(help="Your measurements (CSV).")],
    out: Annotated[Path, typer.Option("--out", "-o", help="JSON file to write.")],
    method: Annotated[
        Literal["quick", "bayes"],
        typer.Option(help="Least squares, or a Bayesian model (needs `make bayes`)."),
    ] = "quick",
) -> None:
    """Fit cost models to your own step times, from any framework.

    Columns of the CSV file: curve, nodes, batch_per_worker, and one of
    step_time_s, samples_per_s (over all workers) and epoch_time_s (which needs
    examples, the examples per epoch).

    Optional columns improve the fit: payload_bytes (of one gradient); compute_s,
    communicate_s and wait_s (parts of a step); collective (ring,
    halving_doubling, tree, star, parameter_server or none; default: ring or
    tree, whichever predicts left-out numbers of nodes better); cluster (curves
    of the same cluster share latency and bandwidth). Rows with the same curve,
    nodes and batch are repeats.

    Exit code: 0 fitted, 2 the file is wrong. What the measurements leave open is
    printed.

    Example: nodewise fit measurements.csv -o fit.json
    """
    from nodewise.core.files import check_writable
    from nodewise.core.progress import progress
    from nodewise.core.units import counted
    from nodewise.predict import ask, fit_file
    from nodewise.results.importers.user_csv import read_measurements

    read = read_measurements(measurements)
    check_writable(out)
    with progress(str(measurements), len(read.curves)) as advance:
        fitted = fit_file.fit_measurements(read, progress=advance, method=method)
    fit_file.write_fit(out, fitted)
    _print_whole(ask.curves_table(fitted))
    for note in ask.told(fitted):
        typer.echo(note)
    typer.echo(f"{out}: {counted(len(fitted.curves), 'curve')}")


@app.command("predict", rich_help_panel=BY_HAND)
def predict_nodes(
    fit: FitFile,
    *,
    nodes: NodeNumbers = "1-64",
    batch: AskedBatch = None,
    global_batch: AskedGlobalBatch = None,
    objective: Annotated[Objective | None, typer.Option(help="Also show this objective.")] = None,
    examples: EpochExamples = None,
    price: NodePrice = None,
    critical_batch: CriticalBatch = None,
    as_json: AsJson = False,
) -> None:
    """Predict step times on other numbers of nodes, with 90 % intervals.

    The intervals are those of the cost model. A single measurement scatters
    around it by the noise that `nodewise fit` prints.

    JSON is a list of rows with curve, nodes, batch_per_worker, step_time_s,
    samples_per_s, low and high (of step_time_s), kind (fitted or predicted) and
    outside (what is beyond the measured range). What the measurements leave open
    goes to stderr.

    Exit code: 0 predicted, 2 the file or an option is wrong.

    Examples: nodewise predict fit.json --nodes 1-64

    nodewise predict fit.json --nodes 1,2,4,8 --batch 128 --objective efficiency --json
    """
    from nodewise.predict import ask
    from nodewise.predict.fit_file import read_fit

    fitted, counts = read_fit(fit), ask.parse_nodes(nodes)
    asked = ask.Asked(batch, global_batch, examples, price, critical_batch)
    rows = ask.prediction_rows(fitted, counts, asked, objective)
    if not as_json:
        _print_whole(ask.predictions_table(rows))
    _print_told(rows, ask.told(fitted), as_json=as_json)


@app.command("optimum", rich_help_panel=BY_HAND)
def best_nodes(
    fit: FitFile,
    *,
    nodes: NodeNumbers = "1-64",
    batch: AskedBatch = None,
    global_batch: AskedGlobalBatch = None,
    objective: Annotated[
        Objective | None, typer.Option(help="Default: all for which enough is known.")
    ] = None,
    examples: EpochExamples = None,
    price: NodePrice = None,
    critical_batch: CriticalBatch = None,
    as_json: AsJson = False,
) -> None:
    """Find the best number of nodes, and how probable it is.

    Without --batch and --global-batch, the measured batches per worker are used,
    or the measured global batch if there is only one.

    JSON is a list with best, probability, near (within 5 % of the best),
    break_even, interior (true: both fewer and more nodes are worse), answer (in
    words) and nodes.

    Exit code: 0 answered, also if there is no best number; 2 the file or an
    option is wrong.

    Examples: nodewise optimum fit.json --global-batch 1024

    nodewise optimum fit.json --objective epoch_cost --price 1.2
    --examples 50000 --json
    """
    from nodewise.predict import ask
    from nodewise.predict.fit_file import read_fit

    fitted, counts = read_fit(fit), ask.parse_nodes(nodes)
    asked = ask.Asked(batch, global_batch, examples, price, critical_batch)
    rows = ask.optimum_rows(fitted, counts, asked, (objective,) if objective else ())
    if not as_json:
        for row in rows:
            typer.echo(f"{row['curve']}, {row['objective']}: {row['answer']}")
    _print_told(rows, ask.told(fitted), as_json=as_json)


def _print_told(rows: "Sequence[Row]", notes: "Iterable[str]", *, as_json: bool) -> None:
    """Print the rows if JSON is wanted; then the notes, beside the JSON."""
    import json

    if as_json:
        typer.echo(json.dumps(rows, indent=1, ensure_ascii=False, allow_nan=False))
    for note in notes:
        typer.echo(note, err=as_json)


def _print_whole(table: "Table") -> None:
    """Print a table; in a narrow terminal lines break, but nothing is cut off."""
    from rich.console import Console

    console = Console()
    unlimited = console.options.update(max_width=10_000)
    console.width = max(console.width, console.measure(table, options=unlimited).maximum)
    console.print(table)


def main() -> None:
    """Run the command line; what the user can mend is one line on stderr and exit code 2.

    On Ctrl-C the exit code is 130, on SIGTERM 143.
    """
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        app()
    except UserError as error:
        _complain(str(error))
        sys.exit(2)
    except OSError as error:
        told = what_to_mend(error)
        if told is None:
            raise
        _complain(one_line(told))
        sys.exit(2)
    except SystemExit as ended:
        if ended.code == _INTERRUPTED:
            _complain("interrupted")
        raise
    except KeyboardInterrupt:
        _complain("interrupted")
        sys.exit(_INTERRUPTED)


def _complain(text: str) -> None:
    try:
        print(f"nodewise: {text}", file=sys.stderr, flush=True)
        sys.stdout.flush()
    except OSError:  # a full disk takes no complaint either; Python must not try again on exit
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.dup2(nowhere, sys.stderr.fileno())

"""Commands that measure, that prepare what is measured, and that check what can be measured."""

import itertools
import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Argument, Option

from nodewise.cli.options import WORKFLOW, OwnDataset, StudyConfig, app, run_command
from nodewise.core.errors import UserError
from nodewise.core.files import check_writable, write_text
from nodewise.core.units import counted, kind_label, write_number

if TYPE_CHECKING:
    from nodewise.core.cell import Cell

KeepRefusal = Annotated[bool, Option("--keep-refusal", help="Write why your own is unusable.")]
SINGLE_RUN = Path("results/single_run")
_QUIET = {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}


@app.command()
def measure(
    *,
    strategy: Annotated[str, Option(help="A strategy (see `nodewise strategies`).")],
    model: Annotated[str, Option(help="Of `nodewise models`, or path/file.py:function.")],
    nodes: Annotated[int, Option(help="Number of nodes.")],
    batch: Annotated[int, Option(help="Examples per node and step.")],
    dataset: OwnDataset = None,
    steps: Annotated[int | None, Option(help="Steps to time; default: 40.")] = None,
    epochs: Annotated[int | None, Option(help="Epochs to time instead of steps.")] = None,
    option: Annotated[list[str] | None, Option(help="Of the strategy: name=value.")] = None,
    cluster: Annotated[str, Option(help="A kind of cluster, or settings.")] = "local",
    fed: Annotated[
        Literal["sharded", "unsharded", "own"] | None,
        Option("--input", help="own: train from your own pipeline as it is, and time it."),
    ] = None,
    out: Annotated[Path | None, Option(help="Default: below results/single_run.")] = None,
) -> None:
    """Measure one cell without a study, print the result and write its record.

    A cluster is local (plain processes), emulated, another kind, or settings:
    '{kind: emulated, node: {cpu: 0.2}, link: {rate_mbit: 100, latency_ms: 5}}'.
    The exit code is 1 if the cell failed or was refused, 2 if an option is wrong.

    Example: nodewise measure --strategy mpi --model resnet50 --nodes 2 --batch 8
    """
    from nodewise.measure.cell import measure as measure_now
    from nodewise.study.single import SingleRun, cell_of, command_of

    given = tuple(option or ())
    options = SingleRun(strategy, model, nodes, batch, dataset, steps, epochs, given, cluster, fed)
    cell = cell_of(options)
    # Prepare first: downloads may need the user's proxies, which measuring removes for workers.
    prepare_data(cell)
    with nullcontext(cell) if out else claimed_repeat(cell) as cell:
        out, logs = out or SINGLE_RUN / f"records/{cell.id}.json", SINGLE_RUN / f"logs/{cell.id}"
        command = command_of(options, cell)
        record = measure_now(cell, output=out, logs=logs, config=None, command=command)
    if record.failure is not None:
        typer.echo(f"{cell.id}: {record.status}: {record.failure.reason}", err=True)
        raise typer.Exit(1)
    # only now: importing NumPy starts threads, and what starts workers must have none
    from nodewise.results.columns import PARTS
    from nodewise.results.tables import build_tables

    row = build_tables([out])["cells"].iloc[0]
    unit = "epoch" if row["whole_epochs"] else "step"
    shown = {
        "cell": row["cell_id"],
        "kind of numbers": kind_label(row["kind"], row["data_origin"], row["weights"]),
        "trained": f"{counted(row[f'{unit}s'], unit)}, global batch {row['global_batch']}",
        "step time, median": write_number(row["step_time_median_s"], "s"),
        "step time, mean": write_number(row["step_time_s"], "s"),  # the rate follows from it
        "examples per second": write_number(row["examples_per_s"], "/s"),
        **{part: write_number(row[f"{part}_s"], "s") for part in ("input", *PARTS)},
        "test accuracy": write_number(row["test_accuracy"], "accuracy"),
        "flags": row["flags"] or "none",
        "record": out,
    }
    for title, value in shown.items():
        typer.echo(f"{title:<20} {value}")


@contextmanager
def claimed_repeat(cell: "Cell") -> Iterator["Cell"]:
    """Yield the first repeat of the cell that has no record and that no other command measures.

    A command claims a repeat by a lock, which the kernel frees when the command ends or is killed.
    """
    from filelock import FileLock, Timeout

    for repeat in itertools.count():
        one = cell.model_copy(update={"repeat": repeat})
        lock = SINGLE_RUN / f"logs/{one.id}/.claimed"
        lock.parent.mkdir(parents=True, exist_ok=True)
        with suppress(Timeout), FileLock(lock, blocking=False):
            if not (SINGLE_RUN / f"records/{one.id}.json").exists():
                yield one
                return


@app.command()
def calibrate(
    config: StudyConfig,
    repeats: Annotated[int, Option(min=1, help="Launches per number of nodes.")] = 2,
) -> None:
    """Measure the links between nodes: latency, bandwidth, all-reduces; and CPU shares.

    The workflow calibrates emulated nodes by itself. For SSH hosts, and for Slurm
    nodes inside an allocation, run it yourself: it names the slowest link. Fits
    of the workflow then use the file, which names hosts by their labels.

    Example: nodewise calibrate --config config/emulated.yaml
    """
    from nodewise.measure.calibrate import calibrate as measure_all
    from nodewise.study.config import CALIBRATION, read_config

    results = read_config(config).results
    out, logs = results / CALIBRATION, results / "logs/calibration"
    result = measure_all(config, output=out, logs=logs, repeats=repeats)
    reason = f": {result.failure.reason}" if result.failure else ""
    typer.echo(f"{out}: {result.status}, {len(result.launches)} launches{reason}")
    if result.streams:
        slowest = min(result.streams, key=lambda stream: stream.bits_per_s)
        rate = write_number(slowest.bits_per_s, "bit/s")
        typer.echo(f"the slowest link: {rate} between {' and '.join(slowest.ends)}")


@app.command()
def doctor(
    config: Annotated[Path | None, Option(help="A study: check the hosts that it names.")] = None,
) -> None:
    """Check which kinds of cluster this machine permits, and how to permit more.

    With --config, the hosts of a study are checked instead: SSH hosts, or Slurm
    nodes inside an allocation. Prints a line for each host and for each problem.
    The project is copied to SSH hosts. Exit code 1 if a host cannot be used.

    Example: nodewise doctor
    """
    from nodewise.cluster.doctor import examine, look, report
    from nodewise.measure.devices import gpus_of_host

    if config is None:
        typer.echo(report(look()))
        count = len(gpus_of_host())
        use = f"; train on them with --strategy mirrored --nodes {count}" if count > 1 else ""
        typer.echo(f"\nGPUs: {count or 'none'}{use}")
        return
    from nodewise.cluster.host_settings import HostSettings
    from nodewise.study.config import read_config

    study = read_config(config)
    named = [study.cluster, *(one.cluster for one in study.experiments.values())]
    clusters = [one for one in named if isinstance(one, HostSettings)]
    if not clusters:
        raise UserError(f"{config}: names no hosts (cluster: {{kind: ssh, hosts: [...]}})")
    broken = False
    for settings in clusters:
        for line, problem in examine(settings.calibrated().take(settings.known_hosts)):
            typer.echo(line)
            broken |= problem
    raise typer.Exit(int(broken))


@app.command(rich_help_panel=WORKFLOW)
def measure_cell(
    cell_id: Annotated[str, Argument(help="Its path below records/, without .json.")],
    config: StudyConfig,
) -> None:
    """Train one cell of a study and write its record."""
    from nodewise.measure.cell import measure
    from nodewise.measure.provenance import command
    from nodewise.study.config import read_config

    study = read_config(config)
    cells = {cell.id: cell for cell in study.cells()}
    if cell_id not in cells:
        raise UserError(f"{config}: declares no cell {cell_id!r}")
    out, logs = study.results / f"records/{cell_id}.json", study.results / f"logs/{cell_id}"
    again = command("snakemake", "--cores", "all", "--force", out, "--configfile", config)
    record = measure(cells[cell_id], output=out, logs=logs, config=config, command=again)
    reason = f": {record.failure.reason}" if record.failure else ""
    typer.echo(f"{cell_id}: {record.status}{reason}", err=record.failure is not None)


@app.command(rich_help_panel=WORKFLOW)
def measure_noise_scale(
    model: Annotated[str, Argument(help="A model that the study trains.")],
    config: StudyConfig,
) -> None:
    """Measure the gradient noise scale of a model, from which its critical batch size follows.

    The model trains 200 steps on one node. Gradients are measured before, during
    and after. --converges-like takes results/STUDY/noise_scale/MODEL.json.
    """
    from nodewise.measure.environment import settle_environment
    from nodewise.study.config import read_config

    study = read_config(config)
    cells = {cell.model: cell for cell in study.cells()}
    if model not in cells:
        trained = ", ".join(sorted(cells)) or "none"
        raise UserError(f"{config}: trains no model {model!r}; it trains {trained}")
    settle_environment()
    from nodewise.data import quiet_tensorflow  # noqa: F401 (before anything else imports it)
    from nodewise.measure.noise_scale import measure_noise_scale as measure_model

    out = study.results / f"noise_scale/{model}.json"
    measure_model(cells[model], output=out, config=config)
    typer.echo(f"{out}: measured")


@app.command(rich_help_panel=WORKFLOW)
def prepare(
    name: Annotated[str, Argument(help="A known dataset, path/file.py:function, or horovod.")],
    *,
    weights: Annotated[bool, Option("--weights", help="NAME is pretrained weights.")] = False,
    source: Annotated[Literal["any", "official"], Option(help="official: never replaced.")] = "any",
    keep_refusal: KeepRefusal = False,
) -> None:
    """Prepare a dataset, the pretrained weights that a model starts from, or Horovod, in results/.

    Files are looked for in data/cache, in the folder NODEWISE_DATASETS and at
    their official addresses, and verified. If there are none, data is synthetic
    and weights are random.

    A function of your own returns (train, test), where test may be None. Each is
    what Keras' fit takes: (x, y) or (x, y, sample_weight) of arrays, or nested
    dicts and tuples of them; a tf.data.Dataset; or a keras.utils.PyDataset.

    Horovod is built for the installed TensorFlow, which takes minutes. Without a
    compiler or a network, the cells that need Horovod are refused.
    """
    from nodewise.core.user_function import own_dataset_name, relative_spec
    from nodewise.measure.inputs import WEIGHTS
    from nodewise.study.config import PREPARED

    if name == "horovod":
        from nodewise.strategies.horovod import build as horovod

        typer.echo(horovod.build(horovod.FOLDER) or f"{horovod.FOLDER}: Horovod {horovod.VERSION}")
        return
    manifest: Any
    if ":" in name and not weights:
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
        from nodewise.models.weights import prepare as prepare_weights

        manifest = (prepare_weights if weights else data.prepare)(
            name,
            registry=Path("data/weights.yaml" if weights else "data/datasets.yaml"),
            cache=Path("data/cache"),
            mirror=os.environ.get("NODEWISE_DATASETS") or None,
            source=source,
            out=(WEIGHTS if weights else PREPARED) / name,
        )
    examples = "" if weights else f"{manifest.train_examples} + {manifest.test_examples}, "
    note = f" ({manifest.note})" if not weights and manifest.note else ""
    typer.echo(f"{name}: {examples}{manifest.origin}{note}")


def prepare_data(cell: "Cell") -> None:
    """Prepare the cell's dataset and weights if that is not done yet; always prepare own data anew.

    Raises:
        SystemExit: one of them is not available; the command that prepares it has printed why.
    """
    from nodewise.measure.inputs import data_manifest, weights_manifest

    if cell.load is not None or not data_manifest(cell).is_file():
        run_command("prepare", cell.load or cell.dataset)
    weights = weights_manifest(cell)
    if weights and not weights.is_file():
        run_command("prepare", weights.parent.name, "--weights")


@app.command(rich_help_panel=WORKFLOW)
def describe_model(
    name: Annotated[str, Argument(help="A model, or path/file.py:function.")],
    *,
    dataset: OwnDataset = None,
    keep_refusal: KeepRefusal = False,
) -> None:
    """Describe a model: its layers, parameters, operations, and the memory of training it.

    A few steps with several batches are trained, only to measure the memory.
    Other commands read data/models/NAME.json; write it again when the model
    changes. The workflow describes your own models in results/models. Then
    `nodewise measure` says before it starts if a batch does not fit this machine.
    """
    from nodewise.cluster.worker import reason_of
    from nodewise.core.schema import json_text
    from nodewise.measure.environment import settle_environment
    from nodewise.measure.inputs import data_manifest
    from nodewise.models.facts import DESCRIPTIONS, own_description, refuse_own
    from nodewise.study.single import SingleRun, cell_of

    cell = cell_of(SingleRun("single", name, 1, 1, dataset))
    path = own_description(cell) if cell.build else DESCRIPTIONS / f"{cell.model}.json"
    check_writable(path)
    if cell.build and not keep_refusal:  # otherwise the workflow has prepared it
        prepare_data(cell)
    settle_environment()
    os.environ |= _QUIET
    from nodewise.data import load, quiet_tensorflow  # noqa: F401 (quiet: before anything else)
    from nodewise.data.pipeline import batch_spec
    from nodewise.measure.step_memory import measure_memory
    from nodewise.models import describe
    from nodewise.models.training import recipe_of

    try:
        if cell.build is None:
            described, memory = describe.describe(cell.model), measure_memory(cell, None)
        else:
            data, recipe = load(data_manifest(cell)), recipe_of(cell)
            sizes = [cell.model_copy(update={"batch": batch}) for batch in describe.COUNTED_BATCHES]
            specs = [batch_spec(one, data, recipe) for one in sizes]
            about = [f"The model of {cell.build}."]
            described = describe.architecture_of(recipe.built(None), cell.model, about, specs)
            memory = measure_memory(cell, data_manifest(cell), data.train_examples)
    # Any exception may occur: the user's code runs, called by TensorFlow and Keras.
    except Exception as error:
        if not keep_refusal:
            raise
        if not isinstance(error, UserError):
            traceback.print_exc()
        refuse_own(path, reason_of(error))
        typer.echo(f"not described: {reason_of(error)}")
        return
    write_text(path, json_text(described.model_copy(update={"memory": memory})))
    typer.echo(f"{path}: {len(described.layers)} layers, {described.total:,} parameters")

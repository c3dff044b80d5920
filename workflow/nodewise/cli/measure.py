"""Commands that measure, and that check what this machine can measure."""

from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Argument, Option

from nodewise.cli.options import STEPS, OwnDataset, StudyConfig, app
from nodewise.core.errors import UserError
from nodewise.core.files import check_writable
from nodewise.core.progress import progress
from nodewise.core.units import counted, write_number


@app.command()
def measure(
    *,
    strategy: Annotated[str, Option(help="A strategy (see `nodewise strategies`).")],
    model: Annotated[
        str,
        Option(help="A model (see `nodewise models`), or path/file.py:function."),
    ],
    nodes: Annotated[int, Option(help="Number of nodes.")],
    batch: Annotated[int, Option(help="Examples per node and step.")],
    dataset: OwnDataset = None,
    steps: Annotated[int | None, Option(help="Steps to time; default: 40.")] = None,
    epochs: Annotated[int | None, Option(help="Epochs to time instead of steps.")] = None,
    option: Annotated[
        list[str] | None, Option(help="Of the strategy: name=value; repeatable.")
    ] = None,
    cluster: Annotated[
        str,
        Option(
            help="local (plain processes), emulated, another kind, or settings such as "
            "'{kind: emulated, node: {cpu: 0.2}, link: {rate_mbit: 100, latency_ms: 5}}'.",
        ),
    ] = "local",
    fed: Annotated[
        Literal["sharded", "unsharded", "own"] | None,
        Option("--input", help="own: train from your own pipeline as it is, and time it."),
    ] = None,
    out: Annotated[Path | None, Option(help="Default: below results/single_run.")] = None,
) -> None:
    """Measure one cell without a study, print the result and write its record.

    Exit code: 0 measured, 1 the cell failed or was refused, 2 an option or a
    file is wrong.

    Example: nodewise measure --strategy multi_worker_mirrored --model
    fashion_cnn --nodes 2 --batch 64 --steps 40
    """
    from contextlib import nullcontext

    from nodewise.cli import single
    from nodewise.measure.cell import measure as measure_now
    from nodewise.measure.environment import settle_environment
    from nodewise.study.single import Options, cell_of, command_of

    given = tuple(option or ())
    options = Options(strategy, model, nodes, batch, dataset, steps, epochs, given, cluster, fed)
    cell = cell_of(options)
    # Prepare before settle_environment(): downloads may need the user's proxies, workers have none.
    single.prepare_data(cell)
    settle_environment()
    claim = nullcontext(cell) if out else single.claimed_repeat(cell)
    with claim as cell, progress(f"{model}, {counted(nodes, 'node')}") as show:
        out = out or single.record_of(cell)
        record = measure_now(
            cell,
            output=out,
            logs=single.logs_of(cell),
            config=None,
            command=command_of(options, cell),
            progress=show,
        )
    if record.failure is not None:
        typer.echo(f"{out}: {record.status}: {record.failure.reason}", err=True)
        raise typer.Exit(1)
    for title, value in single.summary(out).items():
        typer.echo(f"{title:<20} {value}")


@app.command()
def calibrate(
    config: StudyConfig,
    repeats: Annotated[int, Option(min=1, help="Launches per number of nodes.")] = 2,
) -> None:
    """Measure the links between nodes: latency, bandwidth, all-reduces; and CPU shares.

    For emulated nodes this shows how well the emulation holds; the workflow runs
    it by itself. For SSH hosts, and for Slurm nodes inside an allocation, run it
    yourself: it measures the links between them and names the slowest one. The
    workflow's fits then use the file, which names hosts by their labels.

    Example: nodewise calibrate --config config/emulated.yaml
    """
    from nodewise.measure.calibrate import calibrate as measure_all
    from nodewise.study.config import CALIBRATION, read_config

    results = read_config(config).results
    out, logs = results / CALIBRATION, results / "logs/calibration"
    with progress(f"{config}: calibration") as show:
        result = measure_all(config, output=out, logs=logs, repeats=repeats, progress=show)
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
    if broken:
        raise typer.Exit(1)


@app.command(rich_help_panel=STEPS)
def measure_cell(
    cell_id: Annotated[str, Argument(help="Its path below records/, without .json.")],
    config: StudyConfig,
) -> None:
    """Train one cell of a study and write its record."""
    from nodewise.cli.single import logs_of, record_of
    from nodewise.measure.cell import measure
    from nodewise.measure.provenance import command
    from nodewise.study.config import read_config

    study = read_config(config)
    cells = {cell.id: cell for cell in study.cells()}
    if cell_id not in cells:
        raise UserError(f"{config}: declares no cell {cell_id!r}")
    out = record_of(cells[cell_id], study.results)
    with progress(cell_id) as show:
        record = measure(
            cells[cell_id],
            output=out,
            logs=logs_of(cells[cell_id], study.results),
            config=config,
            command=command("snakemake", "--cores", "all", "--force", out, "--configfile", config),
            progress=show,
        )
    reason = f": {record.failure.reason}" if record.failure else ""
    typer.echo(f"{cell_id}: {record.status}{reason}", err=record.failure is not None)


@app.command(rich_help_panel=STEPS)
def measure_noise_scale(
    model: Annotated[str, Argument(help="A model that the study trains.")],
    config: StudyConfig,
) -> None:
    """Measure the gradient noise scale of a model, from which its critical batch size follows.

    The model trains 200 steps on one node. Gradients are measured before, during
    and after. The result is results/STUDY/noise_scale/MODEL.json.
    """
    from nodewise.measure.environment import settle_environment
    from nodewise.study.config import read_config

    study = read_config(config)
    cells = {cell.model: cell for cell in study.cells()}
    if model not in cells:
        trained = ", ".join(sorted(cells)) or "none"
        raise UserError(f"{config}: trains no model {model!r}; it trains {trained}")
    out = study.results / f"noise_scale/{model}.json"
    check_writable(out)  # Report this before TensorFlow is loaded, which takes seconds.
    settle_environment()
    from nodewise.data import quiet_tensorflow  # noqa: F401 (before anything else imports it)
    from nodewise.measure.noise_scale import measure_noise_scale as measure_model

    with progress(f"{model}: noise scale") as show:
        measure_model(cells[model], output=out, config=config, progress=show)
    typer.echo(f"{out}: measured")

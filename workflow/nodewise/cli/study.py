"""Commands about studies: plan, report, publish and compare them, and list what they can use."""

import json
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from nodewise.cli.options import WORKFLOW, StudyConfig, app, print_table
from nodewise.core.errors import UserError
from nodewise.core.files import file_sha256
from nodewise.core.units import counted, write_number


@app.command("plan")
def plan_study(file: StudyConfig = Path("config/study.yaml")) -> None:
    """Check the configuration of a study, and estimate how long it takes on this machine.

    Cells that have a record count as done.

    Example: nodewise plan --config config/paper.yaml
    """
    from nodewise.measure.environment import settle_environment

    # before NumPy is imported: the reference step is measured with a single thread
    settle_environment()
    from nodewise.cluster.cgroup import whole_cores
    from nodewise.measure.quiet_machine import reference_us
    from nodewise.study import config, estimate, plan

    study = config.read_config(file)
    config.check_files_exist(study)
    if study.records:
        typer.echo(f"{file}: {counted(len(study.record_files()), 'cell')}, measured before")
        return
    machine = estimate.Machine(reference_us() / 1e6, whole_cores())
    planned = plan.plan(study, study.results / "records", machine)
    typer.echo(plan.report(study, planned, machine))


@app.command("missing")
def list_missing(
    file: StudyConfig = Path("config/study.yaml"),
    *,
    cautions: Annotated[bool, Option("--cautions", help="Also cells of busy times.")] = False,
    forget: Annotated[bool, Option("--forget", help="Remove their records, to try again.")] = False,
) -> None:
    """List the failed and refused cells of a study, with the reasons.

    A rerun does not repeat them. After fixing the cause, use --forget. It also
    removes a failed calibration and a failed build of Horovod.

    Example: nodewise missing --cautions --forget
    """
    from nodewise.study import config, missing

    study = config.read_config(file)
    found = missing.find_missing(study, study.results / "records", cautions=cautions)
    for line in missing.lines(found, study):
        typer.echo(line)
    if forget:
        for path in missing.remove(found):
            typer.echo(f"{path}: removed")
    elif found:
        also = " --cautions" if cautions else ""
        typer.echo(f"To try them again: nodewise missing --config {file}{also} --forget")


@app.command(rich_help_panel=WORKFLOW)
def build_tables(file: StudyConfig) -> None:
    """Collect the records of a study in tables, as CSV and Parquet."""
    from nodewise.results import published, table_files, tables
    from nodewise.study.config import read_config

    study = read_config(file)
    built = tables.build_tables(
        study.record_files(),
        published.points(),
        watts_per_core=study.watts_per_core,
        published_runs=published.runs(),
        noise_scale_paths=[path for path in study.noise_scales() if path.is_file()],
        curve_paths=[Path(path) for path in study.curves],
    )
    out = study.results / "tables"
    table_files.write_tables(built, out)
    typer.echo(f"{out}: " + ", ".join(f"{name} {len(table)}" for name, table in built.items()))


@app.command(rich_help_panel=WORKFLOW)
def build_fits(file: StudyConfig) -> None:
    """Fit the cost models to all curves, judge them on held-out points, and write fit.json."""
    from nodewise.predict import fit_curves, fit_file, steps_to_accuracy
    from nodewise.predict.study import fitted_tables
    from nodewise.results import calibration, table_files
    from nodewise.study.config import read_config

    study = read_config(file)
    out, source = study.results / "fits", study.results / "tables/curve_points.csv"
    tables = table_files.read_tables(source.parent)
    steps = steps_to_accuracy.find_steps(tables["epochs"], tables["cells"], tables["noise_scale"])
    calibrations = calibration.read_calibrations(study.calibrations())
    found = fit_curves.fit_curves(tables["curve_points"], calibrations)
    table_files.write_tables(fitted_tables(found, steps), out)
    fit_file.write_fit(out / "fit.json", fit_file.file_of(found, source.name, file_sha256(source)))


@app.command(rich_help_panel=WORKFLOW)
def build_site(file: StudyConfig) -> None:
    """Render the pages of the site to build/docs as Markdown, and build build/site from them."""
    from nodewise.report.render import build_study

    build_study(file)


@app.command("publish")
def publish_study(
    file: StudyConfig,
    out: Annotated[Path, Option("--out", help="Folder to write, data/records/MACHINE/STUDY.")],
) -> None:
    """Copy what a study measured to the records that a site is built from.

    Incomplete experiments are left out, and so are points whose times carry a
    caution; trainings of whole epochs stay, for their accuracy. manifest.json
    beside the records says what was measured, where and when, and what was left
    out. Name the folder in config/published.yaml to have it on the site.

    Example: nodewise publish --config config/a.yaml --out data/records/my-pc/a
    """
    from nodewise.study import config, publish

    study = config.read_config(file)
    if study.records:
        raise UserError(f"{file}: nothing to publish: its records were measured before")
    manifest = publish.publish(study, study.results / "records", out)
    for left in manifest.left_out:
        typer.echo(f"left out: {left.what}: {left.why}")
    points = sum(one.points for one in manifest.experiments)
    launches = sum(one.launches for one in manifest.experiments)
    experiments = counted(len(manifest.experiments), "experiment")
    typer.echo(f"{out}: {experiments}, {counted(points, 'point')}, {launches} launches")


@app.command("compare")
def compare_runs(
    old: Annotated[Path, Argument(help="Folder with the records or tables of the earlier run.")],
    new: Annotated[Path, Argument(help="Folder with those of the later run.")],
    out: Annotated[Path | None, Option(help="CSV file to write, for the site.")] = None,
) -> None:
    """Compare two runs and show which points differ by more than noise.

    Example: nodewise compare old/tables results/study/tables --out changes.csv
    """
    from nodewise.results import compare_runs as compare
    from nodewise.results.table_files import write_csv

    changes = compare.compare(compare.read_cells(old), compare.read_cells(new))
    units = {"old_s": "s", "new_s": "s", "ratio": "×", "low": "×", "high": "×"}
    columns = ["experiment", "model", "strategy", "cluster", "batch_per_worker", "nodes"]
    print_table(
        {name: row[name] for name in columns}
        | {name: write_number(row[name], unit) for name, unit in units.items()}
        | {"verdict": row["verdict"]}
        for row in changes.to_dict("records")
    )
    if out is not None:
        write_csv(changes, out)


@app.command("models")
def list_models() -> None:
    """List the models: parameters, payload and operations.

    All are counted from layers and shapes, a multiply-add as 2 FLOP. FLOP/B are
    operations of training a batch of 64 per byte of a gradient.

    Example: nodewise models
    """
    from nodewise.models.facts import facts
    from nodewise.models.registry import check_project, registry

    check_project()
    rows = []
    for name, entry in registry().items():
        try:
            model = facts(name)
        except UserError as error:
            typer.echo(str(error), err=True)
            continue
        rows.append(
            {
                "model": name,
                "dataset": entry.dataset,
                "input": "×".join(map(str, model.input_shape)),
                "trainable": f"{model.trainable:,}",
                "parameters": f"{model.total:,}",
                "payload": write_number(model.payload_bytes, "B"),
                "MFLOP forward": f"{model.flops_per_example / 1e6:,.3f}",
                "FLOP/B, batch 64": f"{64 * model.flops_per_payload_byte:,.0f}",
            }
        )
    print_table(rows)


@app.command("strategies")
def list_strategies() -> None:
    """List the strategies: numbers of nodes, options and defaults.

    Example: nodewise strategies
    """
    from nodewise.strategies import STRATEGIES

    for name, entry in STRATEGIES.items():
        typer.echo(f"{name:<22} {entry.nodes:<8} {entry.title}")
        for option, value in entry.options().model_dump().items():
            typer.echo(f"{'':<31} {option}={json.dumps(value)}")

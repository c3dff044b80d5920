"""Commands that collect records in tables, fit cost models to them and judge these."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from nodewise.cli.options import STEPS, Calibrated, Out, StudyConfig, Tables

app = typer.Typer()


@app.command(rich_help_panel=STEPS)
def build_tables(
    config: StudyConfig,
    out: Out,
    records: Annotated[Path | None, Option(help="Default: results/STUDY/records.")] = None,
    noise_scales: Annotated[
        list[Path] | None,
        Option("--noise-scale", help="A file from `nodewise measure-noise-scale`; repeatable."),
    ] = None,
) -> None:
    """Collect the records of a study in tables, as CSV and Parquet."""
    from nodewise.results import published, tables
    from nodewise.results.importers import import_for_study
    from nodewise.results.table_files import write_tables
    from nodewise.study.config import read_config

    study = read_config(config)
    files = study.record_files(records or study.results / "records")
    imported = import_for_study([Path(path) for path in study.curves])
    built = tables.build_tables(
        files,
        published.points(),
        watts_per_core=study.watts_per_core,
        published_runs=published.runs(),
        noise_scale_paths=noise_scales or (),
        imported=imported,
    )
    write_tables(built, out)
    typer.echo(f"{out}: " + ", ".join(f"{name} {len(table)}" for name, table in built.items()))


@app.command(rich_help_panel=STEPS)
def fit_overhead(
    tables: Tables,
    out: Out,
    calibrations: Calibrated = None,
) -> None:
    """Fit the cost models to measured and published curves.

    Beside the tables there is fit.json, which `nodewise predict` and `nodewise
    optimum` read.
    """
    from nodewise.core.files import file_sha256
    from nodewise.predict import study
    from nodewise.predict.fit_curves import fit_curves
    from nodewise.predict.fit_file import file_of, write_fit
    from nodewise.predict.steps_to_accuracy import find_steps
    from nodewise.results.calibration import read_calibrations
    from nodewise.results.table_files import read_tables

    read = read_tables(tables)
    steps = find_steps(read["epochs"], read["cells"], read["noise_scale"])
    found = fit_curves(read["curve_points"], read_calibrations(calibrations or ()))
    study.write(study.fitted_tables(found, steps), out)
    table = tables / "curve_points.csv"
    write_fit(out / "fit.json", file_of(found, table.name, file_sha256(table)))


@app.command(rich_help_panel=STEPS)
def judge_overhead(
    tables: Tables,
    out: Out,
    calibrations: Calibrated = None,
) -> None:
    """Test the cost models on held-out node counts."""
    from nodewise.predict import study
    from nodewise.results.calibration import read_calibrations
    from nodewise.results.table_files import read_tables

    points = read_tables(tables)["curve_points"]
    known = read_calibrations(calibrations or ())
    study.write(study.judge_study(points, known), out)

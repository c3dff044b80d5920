"""Commands that make the tables, the fits and the site of a study, in the folder of its results."""

from pathlib import Path

import typer

from nodewise.cli.options import STEPS, StudyConfig, app
from nodewise.core.files import file_sha256


@app.command(rich_help_panel=STEPS)
def build_tables(config: StudyConfig) -> None:
    """Collect the records of a study in tables, as CSV and Parquet."""
    from nodewise.results import published, tables
    from nodewise.results.importers import import_for_study
    from nodewise.results.table_files import write_tables
    from nodewise.study.config import read_config

    study = read_config(config)
    built = tables.build_tables(
        study.record_files(),
        published.points(),
        watts_per_core=study.watts_per_core,
        published_runs=published.runs(),
        noise_scale_paths=[path for path in study.noise_scales() if path.is_file()],
        imported=import_for_study([Path(path) for path in study.curves]),
    )
    out = study.results / "tables"
    write_tables(built, out)
    typer.echo(f"{out}: " + ", ".join(f"{name} {len(table)}" for name, table in built.items()))


@app.command(rich_help_panel=STEPS)
def fit_overhead(config: StudyConfig) -> None:
    """Fit the cost models to measured and published curves, and judge them on held-out points.

    Beside the tables there is fit.json, which `nodewise predict` and `nodewise optimum` read.
    """
    from nodewise.predict import study as fits
    from nodewise.predict.fit_curves import fit_curves
    from nodewise.predict.fit_file import file_of, write_fit
    from nodewise.predict.steps_to_accuracy import find_steps
    from nodewise.results.calibration import read_calibrations
    from nodewise.results.table_files import read_tables
    from nodewise.study.config import read_config

    study = read_config(config)
    out, source = study.results / "overhead", study.results / "tables/curve_points.csv"
    tables = read_tables(source.parent)
    points, calibrations = tables["curve_points"], read_calibrations(study.calibrations())
    steps = find_steps(tables["epochs"], tables["cells"], tables["noise_scale"])
    found = fit_curves(points, calibrations)
    fits.write(fits.fitted_tables(found, steps) | fits.judge_study(points, calibrations), out)
    write_fit(out / "fit.json", file_of(found, source.name, file_sha256(source)))


@app.command(rich_help_panel=STEPS)
def build_site(config: StudyConfig) -> None:
    """Render the pages of the site to build/docs as Markdown, and build build/site from them."""
    from nodewise.models.facts import DESCRIPTIONS
    from nodewise.report.context import read_context
    from nodewise.report.render import build_site, render_pages
    from nodewise.study.config import read_config

    study = read_config(config)
    context = read_context(
        config,
        study.results,
        calibration_paths=study.calibrations(),
        models_dir=DESCRIPTIONS,
        own_models=study.own_descriptions(),
    )
    docs = Path("build/docs")
    render_pages(context, study.results, docs)
    build_site(docs, docs.with_name("site"))

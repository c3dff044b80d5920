"""Commands that show results."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from nodewise.cli.options import (
    STEPS,
    Calibrated,
    Out,
    StudyConfig,
    print_table,
)

app = typer.Typer()


@app.command("compare")
def compare_runs(
    old: Annotated[Path, Argument(help="Folder with the records or tables of the earlier run.")],
    new: Annotated[Path, Argument(help="Folder with those of the later run.")],
    out: Annotated[Path | None, Option(help="CSV file to write, for the site.")] = None,
) -> None:
    """Compare two runs and show which points differ by more than noise.

    Example: nodewise compare old/tables results/study/tables --out
    results/study/changes.csv
    """
    from nodewise.core.units import write_number
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


@app.command(rich_help_panel=STEPS)
def build_site(
    *,
    config: StudyConfig,
    results: Annotated[Path, Option(help="Folder of its results.")],
    out: Out,
    calibrations: Calibrated = None,
) -> None:
    """Render the pages of the site to OUT/docs as Markdown, and build OUT/site from them."""
    from nodewise.models.facts import DESCRIPTIONS
    from nodewise.report.context import read_context
    from nodewise.report.render import build_site, render_pages
    from nodewise.study.config import read_config

    study = read_context(
        config,
        results,
        calibration_paths=calibrations or (),
        models_dir=DESCRIPTIONS,
        own_models=read_config(config).own_descriptions(),
    )
    render_pages(study, results, out / "docs")
    build_site(out / "docs", out / "site")

"""The charts and pages of a study that a test wrote, made as the workflow does."""

from functools import cache
from pathlib import Path
from typing import Any

from nodewise.charts import BUNDLE, draw_charts, pictures
from nodewise.pages import render_cells, render_pages

CONFIG = Path("config/study.yaml")


@cache
def vega() -> str:
    """Return what draws charts in a browser: bundling it takes longer than a study's charts."""
    return pictures.bundle()


def draw_all(folder: Path, *more: Any) -> list[str]:
    """Draw the charts of the study in `folder` and their pictures; return their names."""
    kept = folder / "charts" / BUNDLE
    if not kept.is_file():
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(vega(), encoding="utf-8")
    names = draw_charts(folder / "tables", folder / "overhead", folder / "charts", *more)
    pictures.draw_pictures(folder / "charts", folder / "pictures")
    return names


def render(folder: Path, **changes: Any) -> tuple[Path, int]:
    """Render the study in `folder` into its `docs` and `cells`.

    Returns the folder of its pages, and how many files were written.
    """
    inputs: dict[str, Any] = {
        f"{name}_dir": folder / name for name in ("tables", "overhead", "charts", "records")
    }
    for name in ("charts_dir", "records_dir"):
        inputs[name].mkdir(exist_ok=True)
    inputs |= {"site_dir": Path("site"), "out_dir": folder / "docs"} | changes
    of_cells = {name: inputs[name] for name in ("tables_dir", "records_dir", "site_dir")}
    written = render_cells(CONFIG, **of_cells, out_dir=folder / "cells")
    return folder / "docs", written + render_pages(CONFIG, **inputs)

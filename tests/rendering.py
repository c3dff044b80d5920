"""The charts, pages and site of a study that a test wrote, made as the workflow makes them."""

from pathlib import Path
from typing import Any

from nodewise.report.draw import draw_charts
from nodewise.report.render import render_pages

CONFIG = Path("config/study.yaml")


def draw_all(folder: Path, **inputs: Any) -> list[str]:
    """Draw the charts of the study in `folder`; return their names."""
    made = (folder / "tables", folder / "overhead", folder / "charts")
    return draw_charts(*made, config_path=CONFIG, **inputs)


def render(folder: Path, **changes: Any) -> Path:
    """Render the pages of the study in `folder`; return their folder."""
    inputs: dict[str, Any] = {
        f"{name}_dir": folder / name for name in ("tables", "overhead", "charts", "records")
    }
    inputs |= {"site_dir": Path("site"), "out_dir": folder / "docs"} | changes
    render_pages(CONFIG, **inputs)
    return folder / "docs"

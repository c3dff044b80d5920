"""The pages of a study that a test wrote, rendered as the workflow does."""

from pathlib import Path
from typing import Any

from nodewise.pages import render_pages

CONFIG = Path("config/study.yaml")


def render(folder: Path, **changes: Any) -> tuple[Path, int]:
    """Render the study in `folder`; return the folder of its pages, and how many were written."""
    inputs: dict[str, Any] = {
        f"{name}_dir": folder / name for name in ("tables", "overhead", "charts", "records")
    }
    for name in ("charts_dir", "records_dir"):
        inputs[name].mkdir(exist_ok=True)
    inputs |= {"site_dir": Path("site"), "out_dir": folder / "docs"}
    return folder / "docs", render_pages(CONFIG, **(inputs | changes))

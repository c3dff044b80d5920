"""Plug-ins of other packages: installed as pip would leave them, with the examples of the site."""

import os
import re
from pathlib import Path

import projects


def declare(folder: Path, group: str, module: str) -> None:
    """Declare the module `module` in `folder` as an entry point of `group`."""
    info = folder / f"{module}-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{module} = {module}\n")


def example(name: str, plain_page: str = "add.md") -> str:
    """Return the example of a file from a page of the site, by default from "Add something"."""
    page = Path("site/pages", plain_page).read_text(encoding="utf-8")
    found = re.search(rf"\n`[\w/]*?{re.escape(name)}` [^`]*?:\n\n```\w+\n(.*?)```", page, re.DOTALL)
    assert found, f"the page has no example of {name}"
    return found[1]


def measure(plugin: Path, project: Path, how: str) -> None:
    """Measure the templates in a copy of the project in which the plug-in is installed."""
    own = "--model models/templates/own_model.py:build --dataset data/templates/own_data.py:load"
    path = os.pathsep.join([str(plugin), str(projects.copy(project) / "workflow")])
    started = projects.start(
        project, "nodewise", "measure", *f"{own} {how}".split(), PYTHONPATH=path
    )
    said = projects.finish(started)
    assert started.returncode == 0, said

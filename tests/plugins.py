"""Install plug-ins of other packages for tests, and read the examples of them in the docs."""

import os
import re
import sys
from pathlib import Path

import projects


def declare(folder: Path, group: str, module: str) -> None:
    """Declare the module `module` in `folder` as an entry point of `group`, as pip would."""
    info = folder / f"{module}-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{module} = {module}\n")


def run(plugin: Path, *command: object, code: int = 0, **variables: str) -> str:
    """Run Python where the plug-in in the folder `plugin` is installed; return what it printed."""
    path = os.pathsep.join([str(plugin), "workflow", "tests"])
    words = (sys.executable, *map(str, command))
    return projects.finish(
        projects.start(Path.cwd(), *words, **{"PYTHONPATH": path} | variables), code
    )


def example(name: str, plain_page: str = "add.md") -> str:
    """Return the example of the file `name` from a plain page, by default from "Add something"."""
    page = Path("site/pages", plain_page).read_text(encoding="utf-8")
    found = re.search(rf"\n`[\w/]*?{re.escape(name)}` [^`]*?:\n\n```\w+\n(.*?)```", page, re.DOTALL)
    assert found, f"the page has no example of {name}"
    return found[1]

"""Build the site from its Markdown pages."""

import os
import subprocess
import sys
from pathlib import Path

from nodewise.core.errors import UserError
from nodewise.core.folders import replaced

BUILDER = "mkdocs"
"""The program that builds the site from mkdocs.yml: `mkdocs`, or its successor `zensical`."""


def build_site(pages: Path, out: Path) -> None:
    """Build the site from the Markdown pages in `pages`, with the settings of mkdocs.yml.

    The build is strict: a warning is an error.

    Args:
        pages: the folder of the Markdown pages.
        out: the folder of the site; it is replaced.

    Raises:
        UserError: the builder failed or warned.
        OSError: the site cannot be written.
    """
    with replaced(out) as folder:
        folders = {"DOCS_DIR": os.path.relpath(pages), "SITE_DIR": os.path.relpath(folder)}
        done = subprocess.run(
            [sys.executable, "-m", BUILDER, "build", "--strict"],
            env=os.environ | folders,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line]
            told = [line for line in lines if line.startswith(("WARNING", "ERROR"))] or lines[-1:]
            raise UserError(f"{pages}: {''.join(told[:1]).split(' -  ')[-1]}")

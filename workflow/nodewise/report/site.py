"""Build the site from its Markdown pages with MkDocs."""

import logging
from pathlib import Path

from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import MkDocsException

from nodewise.core.errors import UserError
from nodewise.core.folders import replaced


def build_site(pages: Path, out: Path) -> None:
    """Build the site from the Markdown pages in `pages`, with the settings of mkdocs.yml.

    The build is strict: a warning of MkDocs is an error.

    Args:
        pages: the folder of the Markdown pages.
        out: the folder of the site; it is replaced.

    Raises:
        UserError: MkDocs failed or warned; the reason has been logged.
        OSError: the site cannot be written.
    """
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    with replaced(out) as folder:
        folders = {"docs_dir": str(pages.resolve()), "site_dir": str(folder.resolve())}
        try:
            build(load_config("mkdocs.yml", **folders))
        except MkDocsException as error:
            raise UserError(f"{pages}: {error}") from error

"""Markdown pages -> HTML by MkDocs, which takes 20 ms for each: only for those that changed."""

import html
import logging
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

import jinja2
from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import MkDocsException
from mkdocs.plugins import BasePlugin
from mkdocs.structure.pages import Page

from nodewise.errors import UserError
from nodewise.imports import imported
from nodewise.outputs import digest

_CONFIG = "mkdocs.yml"
_OVERRIDES = Path("site/overrides")
_LIBRARIES = ("mkdocs", "mkdocs-material", "markdown", "jinja2")
_OF_LANGUAGES = 2  # as deep in folders are templates of which one in sixty is rendered

_FRONT_MATTER = re.compile(r"\A---\n(.*?)^---\n", re.DOTALL | re.MULTILINE)
_ANCHOR = re.compile(r'\bid="([^"]+)"')


class _Stubs(BasePlugin):  # type: ignore[type-arg, no-untyped-call]
    """Gives MkDocs, in place of pages that are kept, what others need to know of them."""

    def __init__(self, stubs: Mapping[str, str]) -> None:
        self.stubs = stubs

    def on_page_read_source(self, *, page: Page, config: MkDocsConfig) -> str | None:
        """Return the stub of a page; None if it is to be read."""
        return self.stubs.get(page.file.src_uri)


def ground(pages: Path) -> str:
    """Return what decides about every page beside its source: libraries, theme, which there are."""
    files = [Path(_CONFIG), *sorted(_OVERRIDES.rglob("*.html")), *imported("site.py")]
    told = [os.environ.get("SITE_URL", ""), *map(version, _LIBRARIES)]  # which mkdocs.yml reads
    told += [path.relative_to(pages).as_posix() for path in sorted(pages.rglob("*.md"))]
    told += [path.read_text(encoding="utf-8") for path in files]
    return digest(*told)


def rendered(pages: Path, out: Path, kept: Mapping[str, str]) -> dict[str, bytes]:
    """Return the files that MkDocs makes of `pages`, by their paths.

    Args:
        pages: the folder of the Markdown pages, and of what they need.
        out: a folder that MkDocs may fill.
        kept: the HTML of pages that are not to be made again, by their sources: links to them are
            checked, and in the search they are empty.

    Raises:
        UserError: MkDocs has a complaint; what it is has been logged.
    """
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    stubs = {source: _stub(pages / source, page) for source, page in kept.items()}
    try:
        config = load_config(_CONFIG, docs_dir=str(pages.resolve()), site_dir=str(out.resolve()))
        config.plugins["kept"] = _Stubs(stubs)
        config.theme.get_env = theme_templates  # type: ignore[method-assign]
        build(config)
    except MkDocsException as error:
        raise UserError(f"{pages}: {error}") from error
    made = [path for path in sorted(out.rglob("*")) if path.is_file()]
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in made}


def anchors(page: str) -> set[str]:
    """Return what links can lead to in a page."""
    return set(_ANCHOR.findall(page))


def _stub(source: Path, page: str) -> str:
    """Return a page of which nothing is written, with the title and the anchors of one."""
    found = _FRONT_MATTER.search(source.read_text(encoding="utf-8"))
    known = "".join(f'<a id="{html.escape(name)}"></a>\n' for name in sorted(anchors(page)))
    return f"---\n{found[1] if found else ''}template: kept.html\n---\n{known}"


@cache
def theme_templates() -> jinja2.Environment:
    """Return the theme's templates, compiled, for all that this process and its forks build.

    A process builds one site: what plugins do to them is not undone.

    Raises:
        MkDocsException: the configuration is misfit; why has been logged.
    """
    templates = load_config(_CONFIG, docs_dir="site").theme.get_env()
    for name in templates.list_templates(["html"]):
        if name.count("/") < _OF_LANGUAGES:
            with suppress(jinja2.TemplateError):  # left to who renders it
                templates.get_template(name)
    return templates

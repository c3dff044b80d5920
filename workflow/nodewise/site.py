"""Pages -> the site, and the site -> browsers on this machine.

MkDocs renders the Markdown pages, at 20 ms each whether they changed or not. The pages of cells, by
far the most, are HTML already and lack only what surrounds every page: that is rendered once, and
they are put into it.
"""

import html
import json
import logging
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import jinja2

from nodewise.errors import UserError
from nodewise.markdown_tables import put_back
from nodewise.outputs import update_folder

# The page whose surroundings all pages of cells get: as deep in folders as they are, since the
# addresses in it are relative, but no cell's. Its heading is replaced by a cell, its title by that
# of the cell.
SHELL = "cells/-/-/-/-/-/cell.html"
SHELL_TITLE = "TheTitleOfACell"  # only letters: the same in HTML

_CONFIG = "mkdocs.yml"
_OF_LANGUAGES = 2  # as deep in folders are templates of which one in sixty is rendered

_HEADING = re.compile(r'<h1 id="cell">.*?</h1>', re.DOTALL)
_SUMMARY = re.compile(r'<p class="nw-sub">(.*?)</p>', re.DOTALL)
_TAG = re.compile(r"<[^>]*>")
_SEARCH = re.compile(r"assets/javascripts/workers/search\..*\.min\.js")
_STATE, _MENDED = b"e=e+s+o.id}", b'e=e+s+o.id+","}'
_TABLE = re.compile(r'<table class="nw-table.*?</table>', re.DOTALL)
_END_OF_CELL = re.compile(r"</t[dr]>\s*")
_ENTITY = re.compile(r"&#\d+;")
_PICTURE = re.compile(r'<img class="nw-still" src="[^"]*?([^"/]+\.svg)"')
_SIZE = re.compile(r'<svg [^>]*?width="(\d+)[\d.]*" height="(\d+)')


def build_site(pages: Path, cells: Path, pictures: Path, out: Path) -> int:
    """Bring the site in `out` up to date with `pages`, those of `cells`, and `pictures` of charts.

    What did not change is left alone; what an earlier site had and this one has not is removed.
    Returns how many cells it has.

    Raises:
        UserError: MkDocs has a complaint; what it is has been logged. Or a picture is none.
        OSError: the site cannot be written.
    """
    rendered = out / ".mkdocs"
    try:
        files = _by_mkdocs(pages, rendered)
        shell = files.pop(SHELL).decode()
        drawn = {path.name: path.read_text("utf-8") for path in sorted(pictures.glob("*.svg"))}
        for name in files:
            if name.endswith(".html"):
                page = _with_sizes(put_back(files[name].decode()), drawn, pictures)
                files[name] = _short(page).encode()
        files |= {f"charts/{name}": svg.encode() for name, svg in drawn.items()}
        entries = _add_cells(files, cells, _short(shell))
        _add_to_search(files, entries)
        _mend_search(files)
        update_folder(out, files)
    except OSError as error:  # a full disk names no file, and a copy its source first
        where = error.filename2 or error.filename or f"{out}/"
        raise OSError(error.errno, error.strerror, where) from error
    finally:
        shutil.rmtree(rendered, ignore_errors=True)
    return len(entries)


def _by_mkdocs(pages: Path, out: Path) -> dict[str, bytes]:
    """Return the files that MkDocs makes of `pages`, by their paths; it needs a folder for them."""
    from mkdocs.commands.build import build  # here: pages are rendered without MkDocs
    from mkdocs.config import load_config
    from mkdocs.exceptions import MkDocsException

    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    try:
        config = load_config(_CONFIG, docs_dir=str(pages.resolve()), site_dir=str(out.resolve()))
        config.theme.get_env = theme_templates  # type: ignore[method-assign]
        build(config)
    except MkDocsException as error:
        raise UserError(f"{pages}: {error}") from error
    made = [path for path in sorted(out.rglob("*")) if path.is_file()]
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in made}


@cache
def theme_templates() -> jinja2.Environment:
    """Return the theme's templates, compiled, for all that this process and its forks build.

    A process builds one site: what plugins do to them is not undone.

    Raises:
        MkDocsException: the configuration is misfit; why has been logged.
    """
    from mkdocs.config import load_config

    templates = load_config(_CONFIG, docs_dir="site").theme.get_env()
    for name in templates.list_templates(["html"]):
        if name.count("/") < _OF_LANGUAGES:
            with suppress(jinja2.TemplateError):  # left to who renders it
                templates.get_template(name)
    return templates


def _add_cells(files: dict[str, bytes], cells: Path, shell: str) -> list[dict[str, str]]:
    """Add the page of each cell, in its surroundings, and its record beside it.

    Returns what the search needs of them.
    """
    before, after = _HEADING.split(shell)
    entries = []
    for page in sorted(cells.glob("cells/*/*/*/*/*/*.html")):
        cell, name = page.read_text(encoding="utf-8"), page.relative_to(cells).as_posix()
        title = _text(_HEADING, cell)
        around = [part.replace(SHELL_TITLE, title) for part in (before, after)]
        files[name] = _short(cell).join(around).encode()
        files[f"{name.removesuffix('.html')}.json"] = page.with_suffix(".json").read_bytes()
        entries.append({"location": name, "title": title, "text": _text(_SUMMARY, cell)})
    return entries


def _with_sizes(page: str, drawn: Mapping[str, str], pictures: Path) -> str:
    """Return a page that keeps the room of its pictures free before they are loaded."""

    def with_size(shown: re.Match[str]) -> str:
        size = _SIZE.search(drawn.get(shown[1], ""))
        if size is None:
            raise UserError(f"{pictures / shown[1]}: is no picture of a chart; draw it again")
        return f'{shown[0]} width="{size[1]}" height="{size[2]}"'

    return _PICTURE.sub(with_size, page)


def _short(page: str) -> str:
    """Return a page without what browsers do not need: a third of a large one.

    Signs were written as entities to mean nothing to Markdown, which is behind us here; those that
    mean something to HTML stay.
    """
    return _signs(_TABLE.sub(_shorter, page))


def _shorter(table: re.Match[str]) -> str:
    """Return a table without end tags and quotes that HTML lets one leave out.

    Its most frequent class gets a short name, which the style sheet knows.
    """
    return _END_OF_CELL.sub("", table[0]).replace('class="nw-right"', "class=r")


def _text(of: re.Pattern[str], page: str) -> str:
    """Return the text of the first element that is found, as HTML without tags."""
    found = of.search(page)
    inside = html.unescape(_TAG.sub("", found[0])) if found else ""
    return html.escape(" ".join(inside.split()))


def _add_to_search(files: dict[str, bytes], entries: list[dict[str, str]]) -> None:
    """Add entries to the index of the search, and to its copy for pages opened from a folder."""
    index = json.loads(files["search/search_index.json"])
    pages = [page for page in index["docs"] if not page["location"].startswith(SHELL)]
    for page in pages:  # a word with an entity in it is none that is searched for
        page |= {name: _signs(page[name]) for name in ("title", "text")}
    index["docs"] = [*pages, *entries]
    text = json.dumps(index, ensure_ascii=False, separators=(",", ":"))
    files["search/search_index.json"] = text.encode()
    files["search/search_index.js"] = f"var __index = {text}".encode()


def _signs(page: str) -> str:
    """Return a page with signs in place of entities, unless they mean something to HTML."""
    return _ENTITY.sub(lambda entity: _sign(entity[0]), page)


@cache  # pages have many, of few kinds
def _sign(entity: str) -> str:
    """Return a sign as HTML has to have it; our attributes stand between double quotes."""
    return html.escape(html.unescape(entity)).replace("&#x27;", "'")


def _mend_search(files: dict[str, bytes]) -> None:
    """Let the theme's search (Lunr 2.3.9) tell apart states that it takes for the same.

    It names a state by its edges, a letter and a number each, run together: where letters are
    digits, as in our numbers, two names may be alike. Words then get lost, and searches fail.

    Raises:
        UserError: the search is another one.
    """
    (name,) = (name for name in files if _SEARCH.fullmatch(name))
    if files[name].count(_STATE) != 1:
        raise UserError(f"{name}: not the search that is known to need mending")
    files[name] = files[name].replace(_STATE, _MENDED)


def server(folder: Path, port: int) -> ThreadingHTTPServer:
    """Return a server of the site in `folder` that only this machine can reach; 0: any free port.

    Raises:
        UserError: there is no site, or no such port is free.
    """
    if not (folder / "index.html").is_file():
        raise UserError(f"{folder}: there is no site; make site builds that of our measurements")
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    try:
        return ThreadingHTTPServer(("127.0.0.1", port), handler)
    except OSError as error:
        raise UserError(f"port {port}: {error.strerror}; another: --port 0") from error

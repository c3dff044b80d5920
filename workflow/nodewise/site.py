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
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from nodewise.errors import UserError
from nodewise.markdown_tables import put_back

# The page whose surroundings all pages of cells get: as deep in folders as they are, since the
# addresses in it are relative, but no cell's. Its heading is replaced by a cell, its title by that
# of the cell.
SHELL = "cells/-/-/-/-/-/cell.html"
SHELL_TITLE = "TheTitleOfACell"  # only letters: the same in HTML

_HEADING = re.compile(r'<h1 id="cell">.*?</h1>', re.DOTALL)
_SUMMARY = re.compile(r'<p class="nw-sub">(.*?)</p>', re.DOTALL)
_TAG = re.compile(r"<[^>]*>")
_STATE, _MENDED = "e=e+s+o.id}", 'e=e+s+o.id+","}'
_TABLE = re.compile(r'<table class="nw-table.*?</table>', re.DOTALL)
_END_OF_CELL = re.compile(r"</t[dr]>\s*")
_ENTITY = re.compile(r"&#\d+;")


def build_site(pages: Path, out: Path) -> int:
    """Build the site of `pages` into `out`, in place of whatever is there; return its cells.

    Raises:
        UserError: MkDocs has a complaint; what it is has been logged.
        OSError: the site cannot be written.
    """
    from mkdocs.commands.build import build  # here: pages are rendered without MkDocs
    from mkdocs.config import load_config
    from mkdocs.exceptions import MkDocsException

    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    try:
        config = load_config(
            "mkdocs.yml", docs_dir=str(pages.resolve()), site_dir=str(out.resolve())
        )
        build(config)
        entries = _fill(out)
        _shorten(out, {entry["location"] for entry in entries})
        _add_to_search(out / "search", entries)
        _mend_search(out / "assets/javascripts/workers")
    except MkDocsException as error:
        raise UserError(f"{pages}: {error}") from error
    except OSError as error:  # a full disk names no file, and a copy its source first
        where = error.filename2 or error.filename or f"{out}/"
        raise OSError(error.errno, error.strerror, where) from error
    return len(entries)


def _fill(out: Path) -> list[dict[str, str]]:
    """Put every page of a cell into its surroundings; return what the search needs of them."""
    shell = out / SHELL
    before, after = _HEADING.split(_short(shell.read_text(encoding="utf-8")))
    shutil.rmtree(out / "cells/-")
    entries = []
    for page in sorted(out.glob("cells/*/*/*/*/*/*.html")):
        cell = page.read_text(encoding="utf-8")
        title = _text(_HEADING, cell)
        around = [part.replace(SHELL_TITLE, title) for part in (before, after)]
        page.write_text(_short(cell).join(around), encoding="utf-8")
        where = page.relative_to(out).as_posix()
        entries.append({"location": where, "title": title, "text": _text(_SUMMARY, cell)})
    return entries


def _shorten(out: Path, done: set[str]) -> None:
    """Put the tables back into all pages but those that are `done`, and shorten them."""
    for path in out.rglob("*.html"):
        if path.relative_to(out).as_posix() not in done:
            page = put_back(path.read_text(encoding="utf-8"))
            path.write_text(_short(page), encoding="utf-8")


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


def _add_to_search(folder: Path, entries: list[dict[str, str]]) -> None:
    """Add entries to the index of the search, and to its copy for pages opened from a folder."""
    path = folder / "search_index.json"
    index = json.loads(path.read_text(encoding="utf-8"))
    pages = [page for page in index["docs"] if not page["location"].startswith(SHELL)]
    for page in pages:  # a word with an entity in it is none that is searched for
        page |= {name: _signs(page[name]) for name in ("title", "text")}
    index["docs"] = [*pages, *entries]
    text = json.dumps(index, ensure_ascii=False, separators=(",", ":"))
    path.write_text(text, encoding="utf-8")
    path.with_suffix(".js").write_text(f"var __index = {text}", encoding="utf-8")


def _signs(page: str) -> str:
    """Return a page with signs in place of entities, unless they mean something to HTML."""
    return _ENTITY.sub(lambda entity: _sign(entity[0]), page)


@cache  # pages have many, of few kinds
def _sign(entity: str) -> str:
    """Return a sign as HTML has to have it; our attributes stand between double quotes."""
    return html.escape(html.unescape(entity)).replace("&#x27;", "'")


def _mend_search(folder: Path) -> None:
    """Let the theme's search (Lunr 2.3.9) tell apart states that it takes for the same.

    It names a state by its edges, a letter and a number each, run together: where letters are
    digits, as in our numbers, two names may be alike. Words then get lost, and searches fail.

    Raises:
        UserError: the search is another one.
    """
    (path,) = folder.glob("search.*.min.js")
    script = path.read_text(encoding="utf-8")
    if script.count(_STATE) != 1:
        raise UserError(f"{path.name}: not the search that is known to need mending")
    path.write_text(script.replace(_STATE, _MENDED), encoding="utf-8")


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

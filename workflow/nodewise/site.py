"""Pages -> the site.

MkDocs renders the Markdown pages that changed. The pages of cells, by far the most, are HTML
already and lack only what surrounds every page: that is rendered once, and they are put into it.
"""

import html
import json
import re
import shutil
from collections.abc import Collection, Mapping
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

from nodewise.errors import UserError
from nodewise.markdown_tables import put_back
from nodewise.mkdocs_pages import anchors, ground, rendered
from nodewise.outputs import digest, unchanged, update_folder
from nodewise.shell import SHELL, SHELL_TITLE

_INDEX = "search/search_index.json"

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
    try:
        drawn = {path.name: path.read_text("utf-8") for path in sorted(pictures.glob("*.svg"))}
        sizes = {name: _size(svg) for name, svg in drawn.items()}
        made_of = _pages_made_of(pages, sizes)
        kept = unchanged(out, made_of) if (out / _INDEX).is_file() else set()
        made = _pages(pages, pictures, sizes, out, kept)
        if kept and _lost_anchors(made, out):  # a page that is kept may have led there
            kept = set()
            made = _pages(pages, pictures, sizes, out, kept)
        index = _with_kept(json.loads(made[_INDEX]), out, kept)
        shell = made.pop(SHELL).decode()
        files: dict[str, bytes | None] = {**made, **dict.fromkeys(kept)}
        entries, of_cells = _add_cells(files, cells, shell, out)
        _add_to_search(files, index, entries)
        _mend_search(files)
        files |= {f"charts/{name}": svg.encode() for name, svg in drawn.items()}
        update_folder(out, files, made_of | of_cells)
    except OSError as error:  # a full disk names no file, and a copy its source first
        where = error.filename2 or error.filename or f"{out}/"
        raise OSError(error.errno, error.strerror, where) from error
    return len(entries)


def _pages_made_of(pages: Path, sizes: Mapping[str, str]) -> dict[str, str]:
    """Return what tells each page from one that would be rendered otherwise."""
    common = ground(pages)
    made_of = {}
    for path in sorted(pages.rglob("*.md")):
        name, source = _html(path.relative_to(pages)), path.read_text(encoding="utf-8")
        shown = [sizes.get(picture, "") for picture in _PICTURE.findall(source)]
        if name != SHELL:
            made_of[name] = digest(common, source, *shown)
    return made_of


def _pages(
    pages: Path, pictures: Path, sizes: Mapping[str, str], out: Path, kept: Collection[str]
) -> dict[str, bytes]:
    """Return what MkDocs makes of `pages` as it stands on the site, without those that are kept."""
    stubs = {
        f"{name.removesuffix('.html')}.md": (out / name).read_text(encoding="utf-8")
        for name in kept
    }
    folder = out / ".mkdocs"
    try:
        made = rendered(pages, folder, stubs)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for name in made:
        if name.endswith(".html"):
            page = _with_sizes(put_back(made[name].decode()), sizes, pictures)
            made[name] = _short(page).encode()
    return made


def _lost_anchors(made: Mapping[str, bytes], out: Path) -> bool:
    """Return whether a page no longer has what links to it may have led to."""
    again = [name for name in made if name.endswith(".html") and (out / name).is_file()]
    return any(
        anchors((out / name).read_text(encoding="utf-8")) - anchors(made[name].decode())
        for name in again
    )


def _with_kept(index: dict[str, Any], out: Path, kept: Collection[str]) -> dict[str, Any]:
    """Return the index of the search with what it had of pages that are kept."""
    before: dict[str, list[dict[str, str]]] = {}
    if kept:
        for entry in json.loads((out / _INDEX).read_text(encoding="utf-8"))["docs"]:
            before.setdefault(_page_of(entry), []).append(entry)
    docs = [
        entry
        for page, entries in groupby(index["docs"], _page_of)
        for entry in (before.get(page, []) if page in kept else entries)
    ]
    return index | {"docs": docs}


def _page_of(entry: Mapping[str, str]) -> str:
    return entry["location"].partition("#")[0]


def _html(source: Path) -> str:
    return source.with_suffix(".html").as_posix()


def _add_cells(
    files: dict[str, bytes | None], cells: Path, shell: str, out: Path
) -> tuple[list[dict[str, str]], dict[str, str]]:
    """Add the page of each cell, in its surroundings, and its record beside it.

    Returns what the search needs of them, and what each page is made of.
    """
    before, after = _HEADING.split(shell)
    found = {
        page.relative_to(cells).as_posix(): page.read_text(encoding="utf-8")
        for page in sorted(cells.glob("cells/*/*/*/*/*/*.html"))
    }
    made_of = {name: digest(shell, cell) for name, cell in found.items()}
    kept = unchanged(out, made_of)
    entries = []
    for name, cell in found.items():
        title = _text(_HEADING, cell)
        around = [part.replace(SHELL_TITLE, title) for part in (before, after)]
        files[name] = None if name in kept else _short(cell).join(around).encode()
        record = f"{name.removesuffix('.html')}.json"
        files[record] = (cells / record).read_bytes()
        entries.append({"location": name, "title": title, "text": _text(_SUMMARY, cell)})
    return entries, made_of


def _with_sizes(page: str, sizes: Mapping[str, str], pictures: Path) -> str:
    """Return a page that keeps the room of its pictures free before they are loaded."""

    def with_size(shown: re.Match[str]) -> str:
        size = sizes.get(shown[1])
        if not size:
            raise UserError(f"{pictures / shown[1]}: is no picture of a chart; draw it again")
        return f"{shown[0]} {size}"

    return _PICTURE.sub(with_size, page)


def _size(svg: str) -> str:
    """Return the size of a picture, as attributes of the element that shows it; empty if none."""
    found = _SIZE.search(svg)
    return f'width="{found[1]}" height="{found[2]}"' if found else ""


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


def _add_to_search(
    files: dict[str, bytes | None], index: dict[str, Any], entries: list[dict[str, str]]
) -> None:
    """Add entries to the index of the search, and to its copy for pages opened from a folder."""
    pages = [page for page in index["docs"] if not page["location"].startswith(SHELL)]
    for page in pages:  # a word with an entity in it is none that is searched for
        page |= {name: _signs(page[name]) for name in ("title", "text")}
    index["docs"] = [*pages, *entries]
    text = json.dumps(index, ensure_ascii=False, separators=(",", ":"))
    files[_INDEX] = text.encode()
    files["search/search_index.js"] = f"var __index = {text}".encode()


def _signs(page: str) -> str:
    """Return a page with signs in place of entities, unless they mean something to HTML."""
    return _ENTITY.sub(lambda entity: _sign(entity[0]), page)


@cache  # pages have many, of few kinds
def _sign(entity: str) -> str:
    """Return a sign as HTML has to have it; our attributes stand between double quotes."""
    return html.escape(html.unescape(entity)).replace("&#x27;", "'")


def _mend_search(files: dict[str, bytes | None]) -> None:
    """Let the theme's search (Lunr 2.3.9) tell apart states that it takes for the same.

    It names a state by its edges, a letter and a number each, run together: where letters are
    digits, as in our numbers, two names may be alike. Words then get lost, and searches fail.

    Raises:
        UserError: the search is another one.
    """
    (name,) = (name for name in files if _SEARCH.fullmatch(name))
    script = files[name] or b""
    if script.count(_STATE) != 1:
        raise UserError(f"{name}: not the search that is known to need mending")
    files[name] = script.replace(_STATE, _MENDED)

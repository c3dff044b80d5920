"""The site: pages of cells get what surrounds every page, and only this machine is served."""

import json
import re
import shutil
import socket
import threading
from http.client import HTTPConnection
from pathlib import Path

import pytest
from markdown import markdown

import make_records as make
from nodewise.errors import UserError
from nodewise.markdown_tables import Tables
from nodewise.site import SHELL_TITLE, build_site, server
from rendering import draw_all, render

ODD = "<b>no</b> memory & “more”"
CELLS = [make.cell(batch=batch) for batch in (64, 128)]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    make.write_study(folder, [make.record(CELLS[0]), make.failed(CELLS[1], ODD)])
    draw_all(folder)
    render(folder)
    assert build(folder) == len(CELLS)
    return folder / "site"


def build(folder: Path) -> int:
    return build_site(*(folder / name for name in ("docs", "cells", "pictures", "site")))


@pytest.mark.parametrize("cell", CELLS)
def test_a_cell_has_the_head_and_the_navigation_of_every_page(site, cell):
    page = (site / f"cells/{cell.id}.html").read_text()
    assert page.count("<html") == page.count("</html>") == page.count("<h1") == 1
    assert f"batch {cell.batch}, 1 node, launch 0" in page.partition("</title>")[0]
    assert 'href="../../../../../../results/index.html"' in page
    assert SHELL_TITLE not in page


def test_what_surrounds_cells_is_no_page(site):
    assert {path.name for path in (site / "cells").iterdir()} == {"ntua_steps", "index.html"}
    assert SHELL_TITLE not in (site / "search/search_index.json").read_text()


def test_the_search_knows_cells_with_a_server_and_without(site):
    text = (site / "search/search_index.json").read_text()
    entries = {entry["location"]: entry for entry in json.loads(text)["docs"]}
    for cell in CELLS:
        entry = entries[f"cells/{cell.id}.html"]
        assert f"batch {cell.batch}," in entry["title"]
        assert "ntua_steps" in entry["text"]
    assert "method.html" in entries
    assert (site / "search/search_index.js").read_text() == f"var __index = {text}"


def test_what_a_cell_says_is_text_in_the_search_too(site):
    entries = json.loads((site / "search/search_index.json").read_text())["docs"]
    (failed,) = [e for e in entries if CELLS[1].id in e["location"]]
    assert "<" not in failed["title"] + failed["text"]


def test_a_table_is_the_same_whether_markdown_reads_it_or_not():
    table = '<table class="nw-table"><tr><td>*1* &#42;2&#42; `3`</td></tr>\n\n</table>'
    page = f"# Title\n\n<div>{table}</div>\n\n*text*\n"
    assert f"<div>{table}</div>" in markdown(page, extensions=[Tables()])
    assert "<em>text</em>" in markdown(page, extensions=[Tables()])


def test_a_complaint_of_mkdocs_is_a_mistake(tmp_path):
    pages = tmp_path / "docs"
    pages.mkdir()
    (pages / "index.md").write_text("[nowhere](nowhere.md)")
    with pytest.raises(UserError, match=r"docs: .*strict mode"):
        build(tmp_path)


# --- pictures ---


def test_the_room_of_a_picture_is_known_before_it_is_loaded(site):
    sized = re.compile(r'<img class="nw-still" src="([^"]+)" width="(\d+)" height="(\d+)"')
    pages = {path: path.read_text() for path in site.rglob("*.html")}
    shown = {path: sized.findall(page) for path, page in pages.items()}
    assert any(shown.values())
    for path, page in pages.items():
        assert len(shown[path]) == page.count('<img class="nw-still"')
        for source, width, height in shown[path]:
            assert int(width) > 600 and int(height) > 200
            assert f'viewBox="0 0 {width}' in (path.parent / source).read_text()


@pytest.mark.parametrize("svg", ["nothing", None])
def test_a_picture_that_is_none_is_one_clear_line(site, tmp_path, svg):
    folder = tmp_path / "study"
    shutil.copytree(site.parent, folder)
    picture = next((folder / "pictures").glob("*.svg"))
    if svg is None:
        picture.unlink()
    else:
        picture.write_text(svg)
    before = (folder / "site/index.html").read_bytes()
    with pytest.raises(UserError, match=rf"{picture.name}: is no picture of a chart; draw it"):
        build(folder)
    assert (folder / "site/index.html").read_bytes() == before


# --- serving ---


@pytest.fixture
def port(site):
    with server(site, 0) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield serving.server_port
        serving.shutdown()


def got(port, path):
    """Return the status and the body of an answer."""
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, answer.read()


def test_a_page_is_served_and_nothing_outside_the_folder(site, port):
    assert got(port, "/") == (200, (site / "index.html").read_bytes())
    assert (site.parent / "docs/index.md").is_file()
    for path in ("/../docs/index.md", "/%2e%2e/docs/index.md"):
        assert got(port, path)[0] == 404


def test_only_this_machine_is_served(site):
    with server(site, 0) as serving:
        assert serving.server_address[0] == "127.0.0.1"


def test_a_port_that_is_taken_is_said(site):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"port {port}: .*; another: --port 0"):
            server(site, port)


def test_without_a_site_there_is_nothing_to_serve(tmp_path):
    with pytest.raises(UserError, match="there is no site"):
        server(tmp_path, 0)

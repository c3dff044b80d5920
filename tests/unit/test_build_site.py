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
from nodewise import mkdocs_pages
from nodewise.errors import UserError
from nodewise.markdown_tables import Tables
from nodewise.pages.study import trained_by
from nodewise.serving import server
from nodewise.shell import SHELL, SHELL_TITLE
from nodewise.site import build_site
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
    title = page.partition("</title>")[0]
    assert f"{trained_by(cell)}, batch {cell.batch}, 1 node, launch 0" in title
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


# --- what did not change ---


@pytest.fixture
def study(site, tmp_path) -> Path:
    """Return a copy of what the site was built from, with the site."""
    return shutil.copytree(site.parent, tmp_path / "study")


@pytest.fixture
def kept(monkeypatch) -> list[set[str]]:
    """Return what MkDocs was told not to render, for each time that it ran."""
    told = []

    def rendered(pages, out, kept):
        told.append({*kept})
        return mkdocs_pages.rendered(pages, out, kept)

    monkeypatch.setattr("nodewise.site.rendered", rendered)
    return told


def contents(folder):
    # the site map has the day on which a page was made
    return {
        path.relative_to(folder): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name[0] != "." and "sitemap" not in path.name
    }


def change(page, old, new):
    text = page.read_text()
    assert old in text
    page.write_text(text.replace(old, new))


def assert_as_built_anew(study):
    as_brought_up_to_date = contents(study / "site")
    shutil.rmtree(study / "site")
    build(study)
    assert contents(study / "site") == as_brought_up_to_date


def test_only_pages_that_changed_are_rendered_and_the_site_is_as_if_all_were(study, kept):
    with (study / "docs/method.md").open("a") as page:
        page.write("\n*Really* so.\n")
    build(study)
    assert "<em>Really</em> so." in (study / "site/method.html").read_text()
    assert "Really so." in (study / "site/search/search_index.json").read_text()
    sources = {str(path.relative_to(study / "docs")) for path in study.rglob("docs/**/*.md")}
    assert kept == [sources - {"method.md", SHELL.replace(".html", ".md")}]
    assert_as_built_anew(study)


@pytest.mark.slow
def test_a_page_that_comes_or_goes_leaves_no_other_as_it_was(study, kept):
    (study / "docs/models/more.md").write_text("# More\n\nand more\n")
    build(study)
    assert kept == [set()]
    assert_as_built_anew(study)
    (study / "docs/models/more.md").unlink()
    build(study)
    assert not (study / "site/models/more.html").exists()
    assert_as_built_anew(study)


def test_a_picture_of_another_size_is_on_a_page_that_did_not_change(study):
    picture = next((study / "pictures").glob("*.svg"))
    change(picture, 'height="', 'height="9')
    build(study)
    assert_as_built_anew(study)


@pytest.mark.slow
def test_a_link_to_what_a_changed_page_no_longer_has_is_found_on_one_that_did_not(study, kept):
    (study / "docs/method.md").write_text("# Method\n")
    (study / "docs/about.md").write_text("# About\n\n[there](method.md#method)\n")
    build(study)
    (study / "docs/method.md").write_text("# Otherwise\n")
    with pytest.raises(UserError, match="strict mode"):
        build(study)
    assert [bool(told) for told in kept[-2:]] == [True, False]
    (study / "docs/method.md").write_text("# Method\n\nand more\n")
    build(study)
    assert "about.md" in kept[-1]
    assert_as_built_anew(study)


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
def test_a_picture_that_is_none_is_one_clear_line(study, svg):
    picture = next((study / "pictures").glob("*.svg"))
    if svg is None:
        picture.unlink()
    else:
        picture.write_text(svg)
    before = contents(study / "site")
    with pytest.raises(UserError, match=rf"{picture.name}: is no picture of a chart; draw it"):
        build(study)
    assert contents(study / "site") == before


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

"""What MkDocs makes of the pages, and that the server serves this machine only."""

import json
import re
from html import unescape
from pathlib import Path

import pytest

import make_records as make
from nodewise.core.errors import UserError
from nodewise.report.site import build_site
from nodewise.report.titles import title_of_strategy
from rendering import draw_all, render

ODD = "<b>no</b> memory & “more”"
CELLS = [make.cell(batch=batch) for batch in (64, 128)]
CURVE = "curves/fashion-cnn/single.html"


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    make.write_study(folder, [make.record(CELLS[0]), make.failed(CELLS[1], ODD)])
    draw_all(folder)
    build_site(render(folder), folder / "site")
    return folder / "site"


def test_a_curve_has_the_head_and_the_navigation_of_every_page(site):
    page = (site / CURVE).read_text()
    assert page.count("<html") == page.count("</html>") == page.count("<h1") == 1
    assert f"Fashion CNN, {title_of_strategy(CELLS[0])}" in unescape(page.partition("</title>")[0])
    assert 'href="../../results/index.html"' in page


def test_the_search_knows_curves_with_a_server_and_without(site):
    index = json.loads((site / "search/search_index.json").read_text())
    entries = {entry["location"]: entry for entry in index["docs"]}
    assert "Fashion CNN" in entries[CURVE]["title"]
    assert "method.html" in entries
    # No entry contains broken words.
    assert not [e for e in entries.values() if "&#" in e["title"] + e["text"]]
    script = (site / "search/search_index.js").read_text()
    assert json.loads(script.removeprefix("var __index = ")) == index


def test_a_complaint_of_mkdocs_is_a_mistake_and_leaves_no_site(tmp_path):
    pages = tmp_path / "docs"
    pages.mkdir()
    (pages / "index.md").write_text("[nowhere](nowhere.md)")
    with pytest.raises(UserError, match=r"docs: .*strict mode"):
        build_site(pages, tmp_path / "site")
    assert [path.name for path in tmp_path.iterdir()] == ["docs"]


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

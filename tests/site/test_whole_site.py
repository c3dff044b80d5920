"""Properties of the whole site: numbers, names, links, sizes, servers, the search."""

import json
import re
import shutil
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

import prose
from browsing import CURVE, EVERY_SITE, REPOSITORY, wait_for_charts
from mistakes import user_error
from nodewise.report.render import build_site

HOME_BYTES, PAGE_BYTES = 400_000, 1_000_000
"""Bytes that a page may load before it is used, uncompressed."""
MOST_SHIFTED = 0.1  # what Chromium calls a good score of cumulative layout shift
SEARCH_BYTES = 300_000
PAGES_OF_THE_SITE = 105
# Its addresses are relative to the root of a server, and each builder has its own.
LEFT_OUT = {"404.html"}


# --- addresses ---


@EVERY_SITE
def test_addresses_are_plain_words_and_short_and_not_too_many(html):
    assert len(html) <= PAGES_OF_THE_SITE
    addresses = [path for path in html if not re.fullmatch(r"[a-z0-9/-]{1,55}\.html", path)]
    assert addresses == []


NAVIGATION = re.search(r"(?ms)^nav:\n(.*?)^\S", Path("mkdocs.yml").read_text())[1]


@EVERY_SITE
def test_every_page_belongs_to_one_entry_of_the_navigation(site, html):
    entries = re.findall(r"(?m)^  - (.*?):", NAVIGATION)
    for path in html:
        page = (site / path).read_text()
        shown = re.findall(r'<li class="md-tabs__item( md-tabs__item--active)?">', page)
        assert len(shown) == len(entries), path
        assert len(list(filter(None, shown))) == (path != "404.html"), path


def test_every_page_of_the_navigation_is_two_clicks_away_on_wide_and_narrow_screens(site):
    pages = [f"{name}.html" for name in re.findall(r": ([\w/-]+)\.md", NAVIGATION)]
    assert {"findings.html", "strategies/index.html", "models/index.html"} <= {*pages}
    first = (site / "index.html").read_text()
    drawer = first[first.index("md-nav--primary") :]
    for path in pages:
        assert f'href="{path}"' in drawer or f'href="./{path}"' in drawer, path
        page = (site / path).read_text()
        listed = re.search(r'<ul class="md-tabs__list nw-tabs">(.*?)</ul>', page, re.DOTALL)
        assert not listed or listed[1].count('aria-current="true"') == 1, path


def test_the_header_links_to_the_repository(site):
    assert f'<a href="{REPOSITORY}" class="md-source">' in (site / "findings.html").read_text()


def test_the_site_says_how_to_cite_it(site):
    cited = " ".join((site / "data.html").read_text().split())
    cff = yaml.safe_load(Path("CITATION.cff").read_text())
    year = str(cff["date-released"])[:4]
    assert f"{cff['authors'][0]['name']} ({year})" in cited
    assert f"@software{{nodewise, author = {{{cff['authors'][0]['name']}}}" in cited
    assert f"year = {{{year}}}" in cited
    assert 'href="data.html#cite"' in (site / "index.html").read_text()


def test_a_complaint_of_mkdocs_is_a_mistake_and_leaves_no_site(tmp_path):
    pages = tmp_path / "docs"
    pages.mkdir()
    (pages / "index.md").write_text("Other pages of the menu are missing.")
    said = user_error(build_site, pages, tmp_path / "site")
    assert re.search(r"docs: .*your-case\.md.*not found", said)
    assert [path.name for path in tmp_path.iterdir()] == ["docs"]


def test_the_room_of_a_picture_is_known_before_it_is_loaded(site, html):
    sized = re.compile(r'<img class="nw-still" src="([^"]+)" width="(\d+)" height="(\d+)"')
    for path in html:
        page = (site / path).read_text()
        shown = sized.findall(page)
        assert len(shown) == page.count('<img class="nw-still"')
        for source, width, height in shown:
            assert int(width) > 600 and int(height) > 100
            assert f'viewBox="0 0 {width}' in ((site / path).parent / source).read_text()


# --- numbers ---


def test_every_number_in_prose_was_given_by_a_table_a_record_or_a_declared_file(site, html):
    typed = {path: prose.typed_numbers((site / path).read_text()) for path in html}
    assert {path: found for path, found in typed.items() if found} == {}


@EVERY_SITE
def test_what_gives_a_number_is_there(site, html):
    tables = {path.stem for path in (site / "tables").glob("*.csv")}
    named = set()
    for path in html:
        for source in prose.sources((site / path).read_text()):
            named |= set(source.get("data-table", "").split())
            if "data-file" in source:
                file = source["data-file"]
                places = (Path(file), site / file, (site / path).parent / file)
                assert file and any(place.exists() for place in places), f"{path}: {file}"
    assert named <= tables
    assert "cells" in named


@pytest.mark.parametrize(
    ("prose_of", "typed"),
    [
        ("Two nodes are 3.7 times as fast, in 1978 seconds, a speed-up of 3,700.", 3),
        ("<b>40 %</b> is waiting (2.7 times), nodes: 3", 3),
        ('<data value="3.7">3.7</data> times, <span data-table="cells">172</span> cells', 0),
        ("Conv2D, CIFAR-10, Apache-2.0, arXiv:1805.09767, algorithm 1, <code>1-64</code>", 0),
        ("a node sends 2(<em>n</em> − 1)/<em>n</em> · <em>S</em> bytes, Computing 69(2), 2009", 0),
    ],
)
def test_typed_numbers_are_found_and_names_formulas_and_marked_ones_are_none(prose_of, typed):
    assert len(prose.typed_numbers(f"<article><p>{prose_of}</p></article>")) == typed


# --- servers ---


@pytest.fixture(scope="module")
def served(site, tmp_path_factory):
    """Serve the site below a path prefix, as GitHub does for project pages; yield its address."""
    root = tmp_path_factory.mktemp("root")
    (root / "some").mkdir()
    (root / "some/prefix").symlink_to(site, target_is_directory=True)

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(root)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/some/prefix"
    server.shutdown()
    server.server_close()


def load(browser, address):
    """Return what a page loads before it is used, as address -> bytes, and what fails."""
    page, weights, wrong = browser.new_page(), {}, []  # Its cache is empty.

    def note(got):
        weights[got.url] = int(got.headers.get("content-length", "0"))
        if not 200 <= got.status < 400:
            wrong.append((got.status, got.url))

    page.on("request", lambda request: weights.setdefault(request.url, 0))
    page.on("response", note)
    page.on("pageerror", lambda error: wrong.append((0, str(error))))
    page.on("console", lambda said: said.type == "error" and wrong.append((0, said.text)))
    page.goto(address, wait_until="networkidle")  # Pictures are loaded after the page.
    if page.locator("h1").count() != 1:
        wrong.append((0, "not one heading"))
    page.close()
    return weights, wrong


@pytest.mark.slow
@EVERY_SITE
def test_every_kind_of_page_works_below_any_prefix_of_a_server_is_light_and_asks_no_other_host(
    browser, served, of_each_kind, site
):
    heavy, elsewhere, wrong = {}, set(), {}
    for path in of_each_kind:
        weights, wrong[path] = load(browser, f"{served}/{path}")
        own = (f"{served}/", "data:", "blob:")
        elsewhere |= {url for url in weights if not url.startswith(own)}
        assert not [url for url in weights if "vega" in url], path
        weight = sum(weights.values())
        if weight > (HOME_BYTES if path == "index.html" else PAGE_BYTES):
            heavy[path] = weight
    assert heavy == {}
    assert elsewhere == set()
    assert {path: found for path, found in wrong.items() if found} == {}
    assert (site / "search/search_index.json").stat().st_size <= SEARCH_BYTES


SHIFTS = """window.shifts = [];
  new PerformanceObserver((list) => shifts.push(...list.getEntries().map((one) => one.value)))
    .observe({ type: "layout-shift", buffered: true });"""


@pytest.mark.slow
@EVERY_SITE
@pytest.mark.parametrize(("width", "step"), [(1280, 500), (360, 1500)])
def test_no_page_shifts_while_its_charts_are_drawn(browser, served, opened, width, step):
    page, moved = browser.new_page(viewport={"width": width, "height": 800}), {}
    page.add_init_script(SHIFTS)
    for path in [one for one in opened if "/" not in one or one.startswith("results/")][:12]:
        page.goto(f"{served}/{path}", wait_until="networkidle")
        wait_for_charts(page)
        for _ in range(page.evaluate("document.documentElement.scrollHeight") // step):
            page.mouse.wheel(0, step)  # as a reader scrolls
            page.wait_for_timeout(100)
        moved[path] = page.evaluate("shifts.reduce((all, one) => all + one, 0)")
    assert "index.html" in moved
    assert {path: shift for path, shift in moved.items() if shift > MOST_SHIFTED} == {}
    page.close()


@pytest.mark.slow
def test_a_page_with_charts_loads_vega_once_it_is_used_and_other_pages_never(browser, served):
    page, asked = browser.new_page(), []
    page.on("request", lambda request: asked.append(request.url))
    for path, times in (("findings.html", 1), ("glossary.html", 0)):
        asked.clear()
        page.goto(f"{served}/{path}", wait_until="networkidle")
        page.wait_for_load_state()
        page.mouse.move(3, 3)
        if times:
            page.wait_for_selector(".nw-figure--live svg")
        page.wait_for_load_state("networkidle")
        assert len([url for url in asked if url.endswith("/vega.js")]) == times, path
    page.close()


@pytest.mark.slow
@pytest.mark.parametrize("watched", [{"java_script_enabled": False}], indirect=True)
def test_without_scripts_every_page_has_its_text_and_every_chart_its_picture(watched, site, html):
    page = watched.page
    for path in {*html} - LEFT_OUT:
        page.goto((site / path).as_uri())
        assert len(page.locator("article").inner_text()) > 100, path
        stills = page.locator(".nw-still")
        assert stills.count() == page.locator(".nw-figure").count(), path
        hidden = "(all) => all.filter((o) => !o.closest('details') && !o.checkVisibility()).length"
        assert stills.evaluate_all(hidden) == 0, path
        assert all(stills.evaluate_all("(all) => all.map((one) => one.alt)")), path
        assert page.locator(".nw-card details table").count() == stills.count(), path
        assert not page.locator(".nw-filter").first.is_visible(), path


# --- search ---


def test_the_search_knows_curves_with_a_server_and_without(site):
    index = json.loads((site / "search/search_index.json").read_text())
    entries = {entry["location"]: entry for entry in index["docs"]}
    assert "Fashion CNN" in entries[CURVE]["title"] and "method.html" in entries
    # No entry contains broken words.
    assert not [e for e in entries.values() if "&#" in str(e)]
    script = (site / "search/search_index.js").read_text()
    assert json.loads(script.removeprefix("var __index = ")) == index


QUESTIONS = {
    "how many gpus resnet-50": ("your-case.html", "tested.html", "index.html"),
    "how many nodes": ("predictions.html", "index.html"),
    "nvlink or ethernet": ("your-case.html", "tested.html"),
    "price": ("your-case.html",),
    "is horovod faster": ("strategies/horovod.html", "peers.html", "studies/horovod.html"),
    "compare with pytorch": ("peers.html",),
    "parameter server slow": ("strategies/parameter-server.html",),
    "multi worker mirrored": ("strategies/multi-worker-mirrored.html",),
    "MultiWorkerMirroredStrategy": ("strategies/multi-worker-mirrored.html",),
    "gradient compression": ("strategies/compressed-sgd.html",),
    "pipeline parallelism": ("strategies/model-parallel.html", "strategies/hybrid.html"),
    "critical batch bert": ("time-to-accuracy.html",),
    "time to accuracy": ("time-to-accuracy.html",),
    "energy": ("findings.html",),
    "emulated nodes accurate": ("calibration.html",),
    "cite": ("data.html",),
    "download records": ("records.html", "data.html"),
    "run on slurm": ("clusters.html",),
    "my own model": ("own-model.html",),
    "what is a gradient": ("glossary.html",),
    "how accurate are the predictions": ("tested.html",),
    "add my own strategy": ("add.html",),
    "NTUA": ("studies/ntua.html",),
    "is my efficiency normal": ("own.html",),
    "eight GPUs in one box": ("gpus.html", "your-case.html"),
    "is asynchronous SGD worth it": ("strategies/async-sgd.html",),
}
"""What a visitor may type, and the pages of which one should come first."""


def found_first(page, question):
    """Return the address, relative to the site, of the page that the search finds first."""
    field = page.locator("input[name=query]")
    field.click()
    field.fill(question)
    field.press_sequentially(" ")
    page.wait_for_function(
        """() => !['', 'Initializing search'].includes(
          document.querySelector('.md-search-result__meta').textContent.trim())"""
    )
    page.wait_for_timeout(400)
    first = page.locator(".md-search-result__list a").first
    return first.evaluate("(link) => link.pathname") if first.count() else ""


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("site", ["published"], indirect=True)
def test_the_search_finds_the_right_page_first(watched, site):
    page = watched.open("index.html")
    found = {one: found_first(page, one).removeprefix(f"{site}/") for one in QUESTIONS}
    wrong = {one: path for one, path in found.items() if path not in QUESTIONS[one]}
    assert len(wrong) <= 2, wrong


@pytest.mark.slow
def test_the_search_loads_its_worker_and_index_when_it_is_opened(browser, served):
    page, asked = browser.new_page(), []
    page.on("request", lambda request: asked.append(request.url.rsplit("/")[-1]))
    page.goto(f"{served}/glossary.html", wait_until="networkidle")
    assert not [name for name in asked if "search" in name]
    assert found_first(page, "Fashion CNN").endswith("results/fashion-mnist/fashion-cnn.html")
    assert "search_index.json" in asked
    page.close()


@EVERY_SITE
def test_every_page_that_keywords_lead_to_is_there(html):
    keywords = yaml.safe_load(Path("site/keywords.yaml").read_text())
    assert {path for path in keywords if not path.startswith("strategies/")} <= {*html}


# --- Zensical, the successor of Material for MkDocs by the same authors ---


def told(page):
    """Return what visitors would miss on a page: its heading, navigation, scripts and charts."""
    title = re.search(r"<title>(.*?)</title>", page)
    heading = re.search(r"<h1[^>]*>(.*?)(?:<a class=\"headerlink\"|</h1>)", page, re.DOTALL)
    return {
        "title": title and title[1],
        "heading": heading and heading[1],
        "tabs": len(re.findall(r'<li class="md-tabs__item[ "]', page)),
        "here": page.count("md-tabs__item--active"),
        "section": re.findall(r'aria-current="true">(.*?)<', page),
        "scripts": re.findall(r'<script src="[^"]*assets/(\w+\.js)"', page),
        "charts": re.findall(r'class="nw-figure"[^>]*data-name="([^"]+)"', page),
        "footer": page.count('class="nw-footer"'),
    }


@pytest.mark.slow
def test_zensical_builds_the_pages_that_mkdocs_does(site, html, tmp_path, monkeypatch):
    shutil.copytree(site.parent / "docs", tmp_path / "build/docs")
    shutil.copy("mkdocs.yml", tmp_path)
    for name in ("site", "models", "data"):  # overrides, and files that pages include
        (tmp_path / name).symlink_to(Path(name).resolve(), target_is_directory=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("nodewise.report.render.BUILDER", "zensical")
    build_site(Path("build/docs"), Path("build/site"))
    built = tmp_path / "build/site"
    pages = set(html) - LEFT_OUT
    assert {str(path.relative_to(built)) for path in built.rglob("*.html")} - LEFT_OUT == pages
    other = {path: told((built / path).read_text()) for path in sorted(pages)}
    assert other == {path: told((site / path).read_text()) for path in sorted(pages)}

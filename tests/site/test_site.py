"""The built site and its links, in a real browser that opens it from its folder."""

import json
import re
from collections import defaultdict
from html.parser import HTMLParser
from io import StringIO
from urllib.parse import unquote, urlsplit
from zipfile import ZipFile

import pandas as pd
import pytest

from browsing import (
    CURVE,
    EVERY_SITE,
    ODD_CURVE,
    ODD_MODEL,
    ODD_REASON,
    ODD_RESULTS,
    blank_charts,
    scroll_through,
    wait_for_charts,
)
from nodewise.results.columns import COLUMNS, FIT_COLUMNS

RESULTS = "results/fashion-mnist/fashion-cnn.html"
WITH_FIGURES = ["index.html", "time-to-accuracy.html", RESULTS, "predictions.html"]
WITH_FIGURES += ["studies/ntua.html"]
WITH_NUMBERS = [CURVE, "records.html", "findings.html", "your-case.html"]
NARROW = {"viewport": {"width": 360, "height": 800}}
LONGEST = 15_000  # height of a page in pixels on a telephone

# --- every page ---


@pytest.mark.slow
@EVERY_SITE
@pytest.mark.parametrize("watched", [NARROW | {"color_scheme": "dark"}], indirect=True)
def test_every_page_fits_the_width_and_each_of_its_numbers_has_a_kind(watched, opened):
    """Kinds stand in a number's paragraph, the one before it or after its list, or in its table.

    In a table, that is its row, the head of its column or the caption.

    Counts and error rates need none. A row of a table is not higher than most of a screen.

    Opening pages takes most of the time. Therefore each page is opened only once and scrolled to
    its end; it must not report any error.
    """
    found, counted = {}, {}
    for path in opened:
        page = watched.open(path)
        scroll_through(page)
        assert page.locator("h1").count() == 1, path
        found[path, "blank charts"] = blank_charts(page)
        wider = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        found[path, "wider than the screen"] = max(wider, 0)
        longest = page.evaluate("document.documentElement.scrollHeight")
        found[path, "too long"] = max(longest - LONGEST, 0)
        found[path, "without a kind"] = page.evaluate(
            """() => [...document.querySelectorAll('article data:not(.nw-name, .nw-count)')]
              .filter((data) => {
                const cell = data.closest('td');
                const table = cell?.closest('table');
                const door = data.closest('.nw-door');
                const block = data.closest('p, li, dd, dt, caption, summary, h1, h2, h3');
                const list = block?.closest('ul, dl');
                const head = table?.rows[0].cells[cell.cellIndex];
                const places = cell
                  ? [cell.parentElement, head, table.caption]
                  : [door, block, block?.previousElementSibling, list?.nextElementSibling];
                return !/^fitted/i.test(head?.textContent)
                  && !places.some((one) => one?.querySelector('.nw-kind'));
              }).map((data) => data.textContent)"""
        )
        found[path, "high rows"] = page.evaluate(
            """() => [...document.querySelectorAll('.nw-table tr')]
              .map((row) => [Math.round(row.getBoundingClientRect().height), row.textContent])
              .filter(([height]) => height > 700)"""
        )
        found[path, "tables to scroll"] = page.evaluate(
            """() => [...document.querySelectorAll('.nw-stack')].map((one) => one.parentElement)
              .filter((one) => one.scrollWidth > one.clientWidth).length"""
        )
        counted[path] = page.locator("article data:not(.nw-name)").count()
    assert {where: what for where, what in found.items() if what} == {}
    with_numbers = {*WITH_FIGURES, *WITH_NUMBERS} & {*opened}
    assert min(counted[path] for path in with_numbers) >= 3


# --- charts ---


@pytest.mark.parametrize("path", WITH_FIGURES)
def test_every_chart_is_drawn_with_all_its_points(watched, site, path):
    page = watched.open(path)
    page.evaluate("document.querySelectorAll('.nw-more').forEach((one) => { one.open = true; })")
    wait_for_charts(page)
    figures = page.locator(".nw-figure").all()
    assert figures
    for figure in figures:
        name = figure.locator("xpath=..").get_attribute("id")
        data = pd.read_csv(StringIO((site / "charts" / f"{name}.csv").read_text()))
        if "role" in data:
            data = data[~data["role"].isin(["fitted", "predicted"])]  # lines
        shape = "rect" if "part" in data else "symbol"
        drawn = figure.locator(f".nw-live svg .mark-{shape}.role-mark path").count()
        assert drawn == len(data), name
        assert figure.locator(".nw-live svg").bounding_box()["width"] > 200
        assert not figure.locator(".nw-still").is_visible()


@pytest.mark.parametrize("watched", [NARROW], indirect=True)
def test_a_chart_is_as_wide_as_its_card_on_a_telephone(watched):
    page = watched.open(RESULTS)
    for svg in page.locator(".nw-live svg").all():
        box = svg.bounding_box()
        assert 240 < box["width"] <= 330
        assert box["x"] + box["width"] <= 360
    clipped = page.evaluate(
        """() => [...document.querySelectorAll('.nw-live svg text')].filter((text) => {
          const frame = text.closest('svg').getBoundingClientRect();
          const box = text.getBoundingClientRect();
          return box.right > frame.right + 1 || box.left < frame.left - 1;
        }).map((text) => text.textContent)"""
    )
    assert clipped == []


def ink(page):
    """Return the colours of the first chart's title and of the page's background."""
    title = page.locator(".nw-live svg .role-title-text text").first
    behind = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return title.get_attribute("fill"), behind


def test_the_switch_draws_the_charts_again_in_the_other_theme(watched):
    page = watched.open("index.html")
    light = ink(page)
    page.locator("label[title='Switch to dark']").click()
    page.wait_for_selector(".nw-figure[data-theme=dark]")
    dark = ink(page)
    assert light[0] != dark[0] and light[1] != dark[1]
    assert page.locator(".nw-live svg").count() == page.locator(".nw-figure").count()
    page.locator("label[title='Switch to light']").click()
    page.wait_for_selector(".nw-figure[data-theme=light]")
    assert ink(page) == light


def test_pointing_at_a_mark_tells_its_kind_and_numbers(watched):
    page = watched.open(RESULTS)
    points = page.locator("[id$='-accuracy'] .nw-live .mark-symbol.role-mark path")
    kinds = points.evaluate_all("(all) => all.map((one) => one.__data__.datum.kind)")
    points.nth(kinds.index("measured")).hover()
    tip = page.locator("#vg-tooltip-element.visible")
    tip.wait_for()
    told = tip.inner_text()
    assert "Kind" in told and "measured" in told and "Test accuracy" in told and "Launches" in told
    assert "MultiWorkerMirroredStrategy" in told and "multi_worker_mirrored" not in told


@pytest.mark.parametrize("width", [360, 1000])
def test_charts_that_cannot_be_drawn_leave_their_whole_pictures(browser, site, width):
    page = browser.new_page(viewport={"width": width, "height": 800})
    page.route("**/vega.js", lambda route: route.abort())
    page.goto(f"{site.as_uri()}/{RESULTS}")
    figures = page.locator(".nw-figure")
    assert figures.count() > 1
    with page.expect_event("requestfailed", lambda request: "vega.js" in request.url):
        page.mouse.move(3, 3)
    # A chart that fails does not prevent the others from being tried.
    page.wait_for_function("() => !document.querySelector('.nw-figure[aria-busy]')")
    for figure in figures.all():
        assert figure.locator(".nw-still").is_visible()
        assert figure.locator(".nw-scroll").evaluate("(o) => o.scrollWidth <= o.clientWidth")
        assert not figure.locator(".nw-live").is_visible()
    page.close()


# --- text that would be markup ---


def test_a_name_and_a_reason_with_markup_are_shown_and_not_run(watched, site, html):
    pages = [(site / path).read_text() for path in html]
    assert not [page for page in pages if "<script>alert(1)</script>" in page]
    shown = [page for page in pages if re.search(r"&(lt|#60);script&(gt|#62);alert", page)]
    assert len(shown) >= 5
    for path in (ODD_CURVE, ODD_RESULTS, "records.html"):
        page = watched.open(path)
        assert page.get_by_text(ODD_REASON).first.is_visible(), path
        assert page.locator("article img[src=x]").count() == 0
        assert page.locator("article a[href^=javascript]").count() == 0
        if path == "records.html":
            assert page.locator("td", has_text=ODD_MODEL).count() == 3
        else:
            assert ODD_MODEL in page.locator("h1").inner_text()
            assert ODD_MODEL in page.title()


# --- cells ---


def test_tests_on_published_curves_are_searched_by_model_device_or_link(watched):
    page = watched.open("tested.html")
    visible = page.locator(".nw-every tbody tr:visible")
    every = visible.count()
    page.fill("input[name=text]", "rtx 3090")
    assert page.locator(".nw-filter output").inner_text() == f"12 of {every} tests"
    assert visible.count() == 12


def test_the_list_of_cells_filters_and_remembers_it_in_the_address(watched):
    page = watched.open("records.html")
    visible = page.locator("tr[data-cell]:visible")
    assert visible.count() == 54
    page.select_option("select[name=status]", "failed")
    assert visible.count() == 2
    assert page.locator(".nw-filter output").inner_text() == "2 of 54 records"
    page.fill("input[name=text]", "WORKER 2")
    assert visible.count() == 1
    assert "status=failed" in page.url and "text=WORKER" in page.url
    page.reload()
    assert visible.count() == 1
    page.click(".nw-filter button[type=reset]")
    page.wait_for_function("document.querySelectorAll('tr[data-cell]:not([hidden])').length === 54")
    assert "?" not in page.url
    assert page.locator("select[name=nodes] option").all_inner_texts() == ["all", "1", "2", "3"]
    batches = page.locator("select[name=batch] option").all_inner_texts()
    assert batches == ["all", "32", "64", "128", "256", "512"]  # sorted as numbers, not as text


def test_a_curve_leads_to_the_records_of_its_launches(watched, site):
    page = watched.open(CURVE)
    fold = page.locator("details", has_text="How to repeat it").first
    fold.locator("summary").click()
    assert fold.locator("pre code").inner_text().startswith("snakemake --cores all --force")
    link = fold.get_by_role("link")
    records = int(link.inner_text().split()[1])
    link.click()
    page.wait_for_url("**/records.html?*")
    assert page.locator("tr[data-cell]:visible").count() == records
    target = page.locator("tr[data-cell]:visible a", has_text="JSON").first.get_attribute("href")
    assert json.loads((site / unquote(target)).read_text())["cell"]["model"] == "fashion_cnn"


# --- links ---


class Links(HTMLParser):
    """The addresses that a page links to or loads, and its anchors."""

    def __init__(self, text):
        super().__init__()
        self.to, self.loads, self.anchors = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        self.anchors |= {named[key] for key in ("id", "name") if named.get(key)}
        address = named.get("href") or named.get("src") or named.get("data")
        if address is not None and tag == "a":
            self.to.append(address)
        elif address is not None and tag in ("link", "script", "img", "iframe", "object", "source"):
            self.loads.append(address)


@EVERY_SITE
def test_no_link_and_no_anchor_is_broken_and_no_page_loads_anything_from_another_host(site, html):
    site = site.resolve()
    pages = {site / path: Links((site / path).read_text(encoding="utf-8")) for path in html}
    broken, files = defaultdict(list), {path for path in site.rglob("*") if path.is_file()}
    for path in set(html) - {"404.html"}:
        page = pages[site / path]
        assert not [address for address in page.loads if urlsplit(address).netloc], path
        for address in map(urlsplit, [*page.to, *page.loads]):
            if address.scheme in ("http", "https"):
                continue
            target = site / path
            if address.path:
                target = (target.parent / unquote(address.path)).resolve()
            anchor = unquote(address.fragment)
            lost = anchor and target in pages and anchor not in pages[target].anchors
            if lost or target not in files:
                broken[path].append(address.geturl())
    assert dict(broken) == {}
    for style in site.rglob("*.css"):
        addresses = re.findall(r"url\(([^)]*)\)|@import\s+([^;]+)", style.read_text("utf-8"))
        assert not [a for pair in addresses for a in pair if "//" in a and "data:" not in a], style


def test_every_table_can_be_downloaded(site):
    links = Links((site / "data.html").read_text()).to
    names = {link.rsplit("/")[-1] for link in links if link.startswith("tables/")}
    # These belong to the project and do not depend on the study.
    names.discard("peers.json")
    tables = (*COLUMNS, *FIT_COLUMNS)
    assert names == {f"{one}.{end}" for one in tables for end in ("csv", "parquet")}
    read = pd.read_parquet(site / "tables/predictions.parquet")
    assert list(read) == list(pd.read_csv(site / "tables/predictions.csv"))


def test_all_records_can_be_downloaded_at_once(site):
    with ZipFile(site / "records.zip") as archive:
        names = archive.namelist()
        for name in names:
            assert archive.read(name) == (site / name).read_bytes()
    links = Links((site / "records.html").read_text()).to
    assert {unquote(link) for link in links if link.startswith("records/")} == set(names)

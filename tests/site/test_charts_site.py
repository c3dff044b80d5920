"""Charts and pictures in a real browser: they are seen, clicked and printed."""

import re
from urllib.parse import parse_qs, urlsplit

import pytest

from browsing import blank_charts, unfold_charts
from nodewise.report.page import strategy_page
from nodewise.strategies import STRATEGIES

pytestmark = pytest.mark.slow

RESULTS = "results/fashion-mnist/fashion-cnn.html"
SPEEDUP = "ntua_steps-fashion_cnn-multi_worker_mirrored-speedup"


# --- every chart ---


# With 360 pixels, `test_site` looks for blank charts; other tests open charts with 1280 pixels.
TABLET = {"viewport": {"width": 768, "height": 900}, "color_scheme": "dark"}


@pytest.mark.parametrize("watched", [TABLET], indirect=True)
def test_no_chart_is_blank_on_screens_or_on_paper(watched, site, html):
    with_charts = [path for path in html if 'class="nw-figure"' in (site / path).read_text()]
    blank = {}
    for path in with_charts:
        page = watched.open(path)
        unfold_charts(page)
        blank[path, "screen"] = blank_charts(page)
        page.emulate_media(media="print")
        blank[path, "print"] = blank_charts(page)
        page.emulate_media(media="screen")
    assert {where: names for where, names in blank.items() if names} == {}
    assert len(with_charts) > 5


# --- cells ---


def test_a_click_on_a_point_opens_the_page_of_its_curve(watched):
    page = watched.open(RESULTS)
    points = page.locator("[id='ntua-fashion_cnn-accuracy'] .nw-live .mark-symbol.role-mark path")
    ids = points.evaluate_all("(all) => all.map((one) => one.__data__.datum.cell_id)")
    assert "" in ids, "what is published has no cell"
    points.nth(ids.index("")).click(force=True)
    assert urlsplit(page.url).path.endswith(RESULTS)
    wanted = next(one for one in ids if "/nodes~2/" in one)
    points.nth(ids.index(wanted)).click(force=True)
    page.wait_for_url("**/curves/fashion-cnn/multi-worker-mirrored.html")


def test_a_link_leads_to_the_cells_of_a_chart_without_a_mouse(watched):
    page = watched.open(RESULTS)
    page.locator(f"[id='{SPEEDUP}']").get_by_role("link", name="Its records").press("Enter")
    page.wait_for_url("**/records.html*")
    shown = page.locator("[data-cell]:not([hidden])")
    asked = {"experiment": "ntua_steps", "model": "fashion_cnn"}
    assert shown.count() > 0
    for name, value in asked.items():
        found = shown.evaluate_all("(rows, name) => rows.map((row) => row.dataset[name])", name)
        assert set(found) == {value}
    assert parse_qs(urlsplit(page.url).query) == {name: [value] for name, value in asked.items()}


# --- themes, paper, weight, time ---


@pytest.mark.parametrize("watched", [{"color_scheme": "dark"}], indirect=True)
def test_paper_is_light_even_if_the_screen_is_dark(watched):
    page = watched.open(RESULTS)
    page.emulate_media(media="print")
    title = page.locator(".nw-live .role-title-text text").first
    ink = title.evaluate("(text) => getComputedStyle(text).fill")
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert max(map(int, re.findall(r"\d+", ink)[:3])) < 80
    assert min(map(int, re.findall(r"\d+", paper)[:3])) > 240


@pytest.mark.parametrize("watched", [{}, {"java_script_enabled": False}], indirect=True)
def test_charts_that_are_folded_are_on_paper(watched, site):
    page = watched.page
    page.goto(f"{site.as_uri()}/studies/ntua.html")
    folds = page.locator(".nw-more")

    def heights():
        return folds.evaluate_all("(all) => all.map((one) => one.getBoundingClientRect().height)")

    assert 0 < max(heights()) < 100
    page.emulate_media(media="print")
    assert min(heights()) > 200
    assert page.locator(".nw-more .nw-data:visible").count() == 0


# --- pictures of strategies ---


@pytest.mark.parametrize("watched", [{"viewport": {"width": 360, "height": 800}}], indirect=True)
def test_every_picture_is_legible_on_a_telephone(watched):
    for name in STRATEGIES:
        page = watched.open(strategy_page(name))
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
        found = page.evaluate(
            """() => [...document.querySelectorAll('.nw-way svg')].map((svg) => {
              const frame = svg.getBoundingClientRect();
              const boxes = [...svg.querySelectorAll('rect')].map((r) => r.getBoundingClientRect());
              const texts = [...svg.querySelectorAll('text')].map((text) => {
                const own = text.getBoundingClientRect();
                const x = (own.left + own.right) / 2, y = (own.top + own.bottom) / 2;
                const holder = boxes.find(
                  (b) => b.left < x && x < b.right && b.top < y && y < b.bottom) || frame;
                const fits = own.left >= holder.left && own.right <= holder.right;
                return [text.textContent, own.height, fits];
              });
              return [frame.left, frame.right, texts];
            })"""
        )
        assert found, name
        for left, right, texts in found:
            assert left >= 0 and right <= 360
            assert [words for words, _, fits in texts if not fits] == [], name
            assert min(height for _, height, _ in texts) >= 9, name

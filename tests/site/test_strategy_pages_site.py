"""The pages of strategies in a real browser: legible pictures, formulas, links."""

from urllib.parse import urlsplit

import pytest

from nodewise.report.addresses import strategy_page
from nodewise.strategies import STRATEGIES

pytestmark = pytest.mark.slow

PAGE = strategy_page("multi_worker_mirrored")
NARROW = {"viewport": {"width": 360, "height": 800}}


def test_strategies_are_reached_from_the_top_and_compared(watched):
    page = watched.open("index.html")
    page.locator(".md-tabs__link", has_text="Method and data").click()
    page.locator(".nw-door", has_text="Strategies").click()
    page.wait_for_url("**/strategies/index.html")
    assert page.locator(".nw-table tbody tr").count() == len(STRATEGIES)
    page.get_by_role("link", name=STRATEGIES["multi_worker_mirrored"].title).click()
    page.wait_for_url(f"**/{PAGE}")
    page.locator(".nw-crumbs a", has_text="Strategies").click()
    assert urlsplit(page.url).path.endswith("strategies/index.html")


@pytest.mark.parametrize("watched", [NARROW, NARROW | {"color_scheme": "dark"}], indirect=True)
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


def test_pictures_take_the_colours_of_the_theme(watched):
    page = watched.open(PAGE)

    def colours():
        return page.evaluate(
            """() => [['.nw-way__words', 'fill'], ['.nw-way__compute', 'fill'],
                      ['.nw-way__lifeline', 'stroke']].map(
              ([one, of]) => getComputedStyle(document.querySelector(one))[of])"""
        )

    light = colours()
    page.locator("label[title='Switch to dark']").click()
    page.wait_for_selector("body[data-md-color-scheme=slate]")
    assert all(before != after for before, after in zip(light, colours(), strict=True))


def test_a_picture_is_told_in_words(watched):
    page = watched.open(PAGE)
    ring = page.get_by_role("img", name="A step with a ring")
    assert ring.count() == 1
    words = ring.locator("desc").text_content()
    assert "Worker 0: all weights" in words and "message from Worker 2 to Worker 0" in words
    assert page.get_by_role("img", name="A step with a star").count() == 1


def test_the_cells_of_a_strategy_are_one_click_away_and_back(watched):
    page = watched.open(PAGE)
    page.locator(".nw-links a", has_text="MultiWorkerMirroredStrategy").click()
    page.locator(".nw-filter").wait_for()  # A script that reads the address shows the filter.
    assert page.locator("select[name=strategy]").input_value() == "multi_worker_mirrored"
    shown = page.locator("tr[data-cell]:visible")
    assert 0 < shown.count() < page.locator("tr[data-cell]").count()
    shown.first.locator("a").first.click()
    page.locator(".nw-sub a", has_text="How this strategy works").click()
    page.wait_for_url(f"**/{PAGE}")

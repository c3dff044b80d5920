"""The pages of strategies in a real browser: legible pictures, formulas, links."""

from urllib.parse import urlsplit

import pytest

from nodewise.report.page import strategy_page
from nodewise.strategies import STRATEGIES

pytestmark = pytest.mark.slow

PAGE = strategy_page("multi_worker_mirrored")
NARROW = {"viewport": {"width": 360, "height": 800}}


def test_strategies_are_reached_from_the_top_and_compared(watched):
    page = watched.open("index.html")
    page.locator(".md-tabs__link", has_text="Results").click()
    page.locator(".nw-tabs a", has_text="Strategies").click()
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

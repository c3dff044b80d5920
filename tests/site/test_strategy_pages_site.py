"""The pages of strategies in a real browser: legible pictures, formulas, links."""

import pytest

from nodewise.report.page import strategy_page
from nodewise.strategies import STRATEGIES

pytestmark = pytest.mark.slow


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

"""The pages of models in a real browser: compared and linked."""

from urllib.parse import urlsplit

import pytest

pytestmark = pytest.mark.slow

PAGE = "models/fashion-cnn.html"


def test_the_models_are_reached_from_the_top_and_compared(watched):
    page = watched.open("index.html")
    page.locator(".md-tabs__link", has_text="Method and data").click()
    page.locator(".nw-door", has_text="Models").click()
    page.wait_for_url("**/models/index.html")
    page.mouse.move(5, 5)
    page.wait_for_selector(".nw-figure--live svg")
    assert page.locator("h1").inner_text().startswith("Models")
    drawn = page.locator(".nw-live svg .mark-symbol.role-mark path")
    assert drawn.count() == 1
    assert "counted" in page.locator(".nw-live svg .role-title-subtitle").text_content()
    assert page.locator(".nw-table tbody tr").last.locator("data").count() == 6
    page.locator(".nw-door").click()
    assert urlsplit(page.url).path.endswith(PAGE)


def test_the_cells_of_a_model_are_one_click_away(watched):
    page = watched.open(PAGE)
    page.get_by_role("link", name="Its records").click()
    page.locator(".nw-filter").wait_for()  # A script that reads the address shows the filter.
    assert page.locator("select[name=model]").input_value() == "fashion_cnn"
    shown = page.locator("tr[data-cell]:visible")
    assert 0 < shown.count() < page.locator("tr[data-cell]").count()

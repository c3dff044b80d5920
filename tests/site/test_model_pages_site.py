"""The pages of models in a real browser: legible, in the colours of the theme, linked."""

from urllib.parse import urlsplit

import pytest

pytestmark = pytest.mark.slow

PAGE = "models/fashion-cnn.html"
NARROW = {"viewport": {"width": 360, "height": 800}}
TEXTS = ".nw-net svg text"


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


@pytest.mark.parametrize("watched", [NARROW, NARROW | {"color_scheme": "dark"}], indirect=True)
def test_the_architecture_is_legible_on_a_telephone(watched):
    page = watched.open(PAGE)
    picture = page.locator(".nw-net svg")
    frame = picture.bounding_box()
    assert 280 < frame["width"] <= 340
    assert frame["x"] >= 0 and frame["x"] + frame["width"] <= 360
    heights = [text.bounding_box()["height"] for text in page.locator(TEXTS).all()]
    assert len(heights) > 8 and min(heights) >= 9
    outside = picture.evaluate(
        """(svg) => [...svg.querySelectorAll('text')].filter((text) => {
          const box = text.getBoundingClientRect(), frame = svg.getBoundingClientRect();
          return box.right > frame.right || box.left < frame.left || box.bottom > frame.bottom;
        }).map((text) => text.textContent)"""
    )
    assert outside == []


def test_the_architecture_takes_the_colours_of_the_theme(watched):
    page = watched.open(PAGE)

    def colour():
        return page.locator(TEXTS).nth(1).evaluate("(text) => getComputedStyle(text).fill")

    light = colour()
    page.locator("label[title='Switch to dark']").click()
    page.wait_for_selector("body[data-md-color-scheme=slate]")
    assert colour() != light


def test_the_architecture_is_told_in_words(watched):
    picture = watched.open(PAGE).get_by_role("img", name="From input 28×28×1.")
    assert picture.count() == 1
    words = picture.get_attribute("aria-label")
    assert "Conv2D 3×3, 64 filters, relu" in words
    assert "Dense 100 units, relu (1,254,500 parameters, trained; output 100)" in words


def test_the_cells_of_a_model_are_one_click_away(watched):
    page = watched.open(PAGE)
    page.get_by_role("link", name="Its records").click()
    page.locator(".nw-filter").wait_for()  # A script that reads the address shows the filter.
    assert page.locator("select[name=model]").input_value() == "fashion_cnn"
    shown = page.locator("tr[data-cell]:visible")
    assert 0 < shown.count() < page.locator("tr[data-cell]").count()

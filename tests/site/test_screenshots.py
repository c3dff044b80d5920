"""Screenshots of ten kinds of pages of the synthetic site, compared with committed pictures.

A picture shows the top of a page, reduced to a quarter of its size and sixteen greys. Text is set
in the font that comes with Pillow, because system fonts break lines at other places, which would
move half a page. Charts still use system fonts, and each browser draws edges a little differently:
hence the tolerance. `make screenshots` renews the pictures.
"""

import base64
import os
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image, ImageChops, ImageFont

from browsing import CURVE

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).with_name("screenshots")
PAGES = {
    "home": "index.html",
    "your-case": "your-case.html",
    "results": "results/fashion-mnist/fashion-cnn.html",
    "curve": CURVE,
    "findings": "findings.html",
    "study": "studies/ntua.html",
    "strategy": "strategies/multi-worker-mirrored.html",
    "method": "method.html",
    "predictions": "predictions.html",
    "calibration": "calibration.html",
}
VIEW = {"viewport": {"width": 1280, "height": 1800}}
SMALLER = 4
STEP = 16  # of 256 grey levels
APART = 40
"""Grey levels of 256 by which a pixel must differ to count; thin lines and letters differ less."""
SHARE = 0.02
"""Share of pixels that may differ; a missing or moved chart or paragraph changes more."""


def font():
    """Return a style sheet that sets all text in Pillow's font, with the same widths everywhere."""
    of = base64.b64encode(ImageFont.load_default(16).font_bytes).decode()
    face = f"@font-face {{ font-family: same; src: url(data:font/ttf;base64,{of}) }}"
    look = "font-family: same, sans-serif !important; text-rendering: geometricPrecision !important"
    return f"{face} * {{ {look} }}"


def take(watched, path):
    """Return the picture of a page."""
    page = watched.open(path)
    page.add_style_tag(content=font())
    page.evaluate("document.fonts.load('16px same')")
    return photograph(page)


def photograph(page):
    """Return a screenshot of a page in its current state, reduced and grey."""
    whole = Image.open(BytesIO(page.screenshot(animations="disabled"))).convert("L")
    return whole.reduce(SMALLER).point(lambda grey: grey // STEP * STEP)


def difference(one, other):
    """Return the share of pixels that differ by more than `APART`; 1 if the sizes differ."""
    if one.size != other.size:
        return 1.0
    apart = ImageChops.difference(one, other).histogram()
    return sum(apart[APART + 1 :]) / sum(apart)


@pytest.mark.parametrize("watched", [VIEW], indirect=True)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_looks_as_it_did(watched, name):
    committed, now = FOLDER / f"{name}.png", FOLDER / f"{name}.now.png"
    picture = take(watched, PAGES[name])
    if "NODEWISE_SCREENSHOTS" in os.environ:
        picture.save(committed, optimize=True)
    off = difference(picture, Image.open(committed))
    if off > SHARE:
        picture.save(now)
    else:
        now.unlink(missing_ok=True)
    assert off <= SHARE, f"{off:.1%} of the pixels differ: compare {now} with {committed}"


def test_the_pictures_are_small_and_of_these_pages():
    pictures = [path for path in FOLDER.glob("*.png") if ".now" not in path.name]
    assert {path.stem for path in pictures} == set(PAGES)
    assert sum(path.stat().st_size for path in pictures) < 500_000


@pytest.mark.parametrize("watched", [VIEW], indirect=True)
@pytest.mark.parametrize(
    "change",
    [
        "document.querySelector('.nw-card').remove()",
        "document.body.dataset.mdColorScheme = 'slate'",
        "document.querySelector('article').style.paddingTop = '40px'",
    ],
)
def test_a_page_that_looks_otherwise_is_found(watched, change):
    before = take(watched, PAGES["home"])
    watched.page.evaluate(change)
    assert difference(before, photograph(watched.page)) > SHARE

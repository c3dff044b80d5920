"""Helpers for browser tests: addresses and texts of the synthetic site, and waiting for charts."""

import pytest
from playwright.sync_api import Page

EVERY_SITE = pytest.mark.parametrize(
    "site",
    ["synthetic", pytest.param("published", marks=[pytest.mark.slow, pytest.mark.timeout(1200)])],
    indirect=True,
)
"""Run a test also on the site of the committed records; see `conftest.site`."""

REPOSITORY = "https://example.org/nodewise"
CURVE = "curves/fashion-cnn/multi-worker-mirrored.html"
ODD_CURVE = "curves/script-alert-1-script-y-z/multi-worker-mirrored.html"
ODD_MODEL = "<script>alert(1)</script> `y` *z*"
ODD_RESULTS = "results/fashion-mnist/script-alert-1-script-y-z.html"
ODD_REASON = "`x` | **bold** <img src=x onerror=alert(2)> [go](javascript:alert(3)) {{ 7*7 }}"
ODD_LOG = [
    "```",
    "</code></pre><script>alert(4)</script>",
    "```",
    "# not a heading",
    "    * not a list",
]


def wait_for_charts(page: Page) -> None:
    """Have the page draw its charts, as a first move does, and wait for all visible ones."""
    page.wait_for_load_state()  # a large page may be quiet before its scripts have run
    page.evaluate("dispatchEvent(new Event('pointermove'))")
    page.wait_for_function(
        """() => [...document.querySelectorAll('.nw-figure')]
          .filter((figure) => figure.checkVisibility())
          .every((figure) => figure.matches('.nw-figure--live:not([aria-busy])'))""",
        timeout=120_000,
    )


def unfold_charts(page: Page) -> None:
    """Unfold all folded charts of a page, and wait until they are drawn."""
    page.evaluate(
        """() => document.querySelectorAll('article details:has(.nw-figure)')
          .forEach((one) => { one.open = true; })"""
    )
    wait_for_charts(page)


def scroll_through(page: Page) -> None:
    """Scroll to the end of a page, screen by screen, and wait until all charts are drawn."""
    page.evaluate(
        """async () => {
          for (let top = 0; top < document.documentElement.scrollHeight; top += innerHeight) {
            scrollTo(0, top);
            await new Promise(requestAnimationFrame);
          }
        }"""
    )
    wait_for_charts(page)


def blank_charts(page: Page) -> list[str]:
    """Return the names of the visible charts in which no mark of the data can be seen."""
    blank: list[str] = page.evaluate(
        """() => [...document.querySelectorAll('.nw-figure')]
          .filter((figure) => figure.checkVisibility())
          .filter((figure) => {
            const svg = figure.querySelector('.nw-live svg');
            const { left, right, top, bottom } = svg?.getBoundingClientRect() ?? {};
            const seen = [...(svg?.querySelectorAll('.role-mark path, .role-mark line') ?? [])]
              .filter((mark) => mark.checkVisibility({ opacityProperty: true }))
              .map((mark) => mark.getBoundingClientRect())
              .filter((mark) => mark.width + mark.height > 0 && mark.left < right
                && mark.right > left && mark.top < bottom && mark.bottom > top);
            return !(right - left > 200 && bottom - top > 100 && seen.length);
          }).map((figure) => figure.dataset.name)"""
    )
    return blank

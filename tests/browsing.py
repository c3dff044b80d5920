"""What tests in a browser know of the site of synthetic records, and how they wait for it."""

from playwright.sync_api import Page

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
    """Begin to use a page; wait until every chart that it shows is drawn as it is wanted now."""
    page.mouse.move(3, 3)
    page.wait_for_function(
        """() => [...document.querySelectorAll('.nw-figure')]
          .filter((figure) => figure.checkVisibility())
          .every((figure) => figure.matches('.nw-figure--live:not([aria-busy])'))"""
    )

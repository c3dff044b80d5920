"""Time the first chart of every page that has one, opened from its folder (level: 1.5 s each).

The time is the browser's own, from when the page was asked for to when its first chart was drawn.
Every launch is a new browser: nothing is in its cache.

Example: python bench/first_chart.py build/site
"""

import argparse
import shutil
import statistics
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

RUNS = 5
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
FIRST = "performance.getEntriesByName('nodewise:chart')[0].startTime"


def first_chart_s(browser: Browser, page: Path) -> float:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    tab = context.new_page()
    tab.goto(page.as_uri())
    tab.mouse.move(3, 3)  # charts are drawn when a reader begins to use the page
    tab.wait_for_selector(".nw-figure--live")
    milliseconds = tab.evaluate(FIRST)
    context.close()
    return float(milliseconds) / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", type=Path, nargs="?", default=Path("build/site"))
    site = parser.parse_args().site.resolve()
    pages = [
        page for page in sorted(site.rglob("*.html")) if 'class="nw-figure"' in page.read_text()
    ]
    found = next(filter(None, map(shutil.which, BROWSERS)))
    with sync_playwright() as playwright:
        for page in pages:
            seconds = []
            for _ in range(RUNS):
                browser = playwright.chromium.launch(executable_path=found, args=FLAGS)
                seconds.append(first_chart_s(browser, page))
                browser.close()
            low, high = min(seconds), max(seconds)
            middle = statistics.median(seconds)
            kilobytes = page.stat().st_size / 1000
            name = str(page.relative_to(site))
            print(
                f"{name:40} {kilobytes:5.0f} kB  median {middle:.2f} s  ({low:.2f} to {high:.2f})"
            )


if __name__ == "__main__":
    main()

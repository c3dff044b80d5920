"""Built sites, of synthetic and of the committed records, and a real browser that opens them.

One experiment of the synthetic records is unusual on purpose: the name of its model, its failure
and its log contain text that would be markup if it were not escaped.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

import make_architectures
import make_calibration
import make_records as make
import projects
from browsing import ODD_CURVE, ODD_LOG, ODD_MODEL, ODD_REASON, REPOSITORY, wait_for_charts
from nodewise.core.schema import json_text
from nodewise.report.render import build_site
from nodewise.results.table_files import write_tables
from rendering import render

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
FLAGS += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
LARGEST = 12  # pages of the published site that the browser tests open


@pytest.fixture(scope="session")
def site(fill_once, request) -> Path:
    """Return the folder of the built site; `site.parent` holds what it was built from.

    It is the site of synthetic records, unless an indirect parameter asks for `published`.
    """
    which = getattr(request, "param", "synthetic")
    return fill_once(which, {"synthetic": build, "published": build_published}[which]) / "site"


def build_published(folder: Path) -> None:
    """Build the site of the committed records, as `make site` does."""
    project = projects.copy(folder / "project")
    command = ("snakemake", "--configfile", "config/published.yaml", "--cores", "all")
    projects.finish(projects.start(project, *command, NODEWISE_DATASETS=""))
    (project / "build/site").rename(folder / "site")


def build(folder: Path) -> None:
    odd = [make.record(make.cell(experiment="odd", n=n), origin="generated") for n in (1, 2)]
    lost = make.failed(make.cell(experiment="odd", n=3), ODD_REASON, ODD_LOG)
    tables = make.write_study(folder, [*make.grid(repeats=3), *odd, lost], make.published())
    for name in ("cells", "curves", "epochs"):
        tables[name].loc[tables[name]["experiment"] == "odd", "model"] = ODD_MODEL
    write_tables(tables, folder / "tables")
    calibration = folder / "calibration.json"
    calibration.write_text(json_text(make_calibration.calibration(noise=0.03)))
    models = make_architectures.write([make_architectures.fashion_cnn()], folder / "models")
    render(folder, calibration_paths=[calibration], models_dir=models)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REPO_URL", REPOSITORY)
        build_site(folder / "docs", folder / "site")


@pytest.fixture(scope="session")
def html(site) -> list[str]:
    """Return the pages of the site, as paths below its folder."""
    return sorted(str(path.relative_to(site)) for path in site.rglob("*.html"))


@pytest.fixture(scope="session")
def opened(site, html) -> list[str]:
    """Return the pages that a browser opens one by one; of the published site only the first
    and the largest.

    The others use the same templates, and opening all of them would take ten minutes.
    """
    # Its addresses are relative to the root of a server.
    pages = [path for path in html if path != "404.html"]
    if site.parent.name.startswith("published"):
        largest = sorted(pages, key=lambda path: -(site / path).stat().st_size)[:LARGEST]
        return ["index.html", *(path for path in largest if path != "index.html")]
    return pages


@pytest.fixture(scope="session")
def of_each_kind(site, opened) -> list[str]:
    """Return of the opened pages those at the top level, and the largest page of each folder."""
    chosen = [path for path in opened if "/" not in path or path.endswith("/index.html")]
    for folder in ("curves", "models", "results", "strategies", "studies"):
        members = [path for path in opened if path.startswith(f"{folder}/")]
        largest = sorted(members, key=lambda path: -(site / path).stat().st_size)[:1]
        chosen += [path for path in largest if path not in chosen]
    return [*chosen, *({ODD_CURVE} & {*opened} - {*chosen})]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Start the browser of the system.

    Without a browser the test is skipped, except in continuous integration, where it fails.
    """
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None and "CI" not in os.environ:
        pytest.skip(f"no browser is installed: one of {', '.join(BROWSERS)}")
    assert found, "no browser is installed"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=FLAGS)
        yield browser
        browser.close()


class Watched:
    """A browser page that records errors, warnings, dialogs and requests; none may occur."""

    def __init__(self, page: Page, site: Path) -> None:
        self.page, self.site = page, site
        self.complaints: list[str] = []
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("dialog", self._on_dialog)
        page.on("request", self._on_request)
        page.on("requestfailed", self._on_failure)

    def _on_console(self, message) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")

    def _on_dialog(self, dialog) -> None:
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _on_request(self, request) -> None:
        if not request.url.startswith((self.site.as_uri(), "data:", "blob:", "about:")):
            self.complaints.append(f"request to {request.url}")

    def _on_failure(self, request) -> None:
        # Another page was opened before this request ended.
        if request.failure != "net::ERR_ABORTED":
            self.complaints.append(f"{request.failure}: {request.url}")

    def open(self, path: str) -> Page:
        """Open a page of the site and wait until its charts are drawn."""
        self.page.goto(f"{self.site.as_uri()}/{path}")
        wait_for_charts(self.page)
        return self.page


@pytest.fixture
def watched(browser, site, request) -> Iterator[Watched]:
    """Return a light page of 1280 × 900 pixels; an indirect parameter changes these options."""
    options = {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"}
    watched = Watched(browser.new_page(**(options | getattr(request, "param", {}))), site)
    yield watched
    watched.page.close()
    assert watched.complaints == []

"""The site also builds with Zensical, the successor of Material for MkDocs by the same authors."""

import re
import shutil
from pathlib import Path

import pytest

from nodewise.report import render as builder

LEFT_OUT = {"404.html"}  # MkDocs and Zensical each have their own page for this.


def told(page):
    """Return what visitors would miss on a page: its heading, navigation, scripts and charts."""
    title = re.search(r"<title>(.*?)</title>", page)
    heading = re.search(r"<h1[^>]*>(.*?)(?:<a class=\"headerlink\"|</h1>)", page, re.DOTALL)
    return {
        "title": title and title[1],
        "heading": heading and heading[1],
        "tabs": len(re.findall(r'<li class="md-tabs__item[ "]', page)),
        "here": page.count("md-tabs__item--active"),
        "section": re.findall(r'aria-current="true">(.*?)<', page),
        "scripts": re.findall(r'<script src="[^"]*assets/(\w+\.js)"', page),
        "charts": re.findall(r'class="nw-figure"[^>]*data-name="([^"]+)"', page),
        "footer": page.count('class="nw-footer"'),
    }


@pytest.mark.slow
def test_zensical_builds_the_pages_that_mkdocs_does(site, html, tmp_path, monkeypatch):
    shutil.copytree(site.parent / "docs", tmp_path / "build/docs")
    shutil.copy("mkdocs.yml", tmp_path)
    for name in ("site", "models", "data"):  # overrides, and files that pages include
        (tmp_path / name).symlink_to(Path(name).resolve(), target_is_directory=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(builder, "BUILDER", "zensical")
    builder.build_site(Path("build/docs"), Path("build/site"))
    built = tmp_path / "build/site"
    pages = set(html) - LEFT_OUT
    assert {str(path.relative_to(built)) for path in built.rglob("*.html")} - LEFT_OUT == pages
    other = {path: told((built / path).read_text()) for path in sorted(pages)}
    assert other == {path: told((site / path).read_text()) for path in sorted(pages)}

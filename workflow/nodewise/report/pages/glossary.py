"""Make the glossary: the terms of the field as the site uses them."""

from collections.abc import Iterator
from pathlib import Path

from nodewise.core.schema import read_tree
from nodewise.report.context import ReportContext
from nodewise.report.page import Page
from nodewise.report.pages import page

GLOSSARY = Path("site/glossary.yaml")


@page("glossary")
def pages(study: ReportContext) -> Iterator[Page]:
    """Yield the glossary, in alphabetical order; the anchor of a term is its `slug`."""
    terms = sorted(read_tree(GLOSSARY), key=lambda one: one["term"].lower())
    yield Page("glossary.html", "glossary.md.j2", "Glossary", {"terms": terms}, contents=False)

"""Make the glossary: the terms of the field as the site uses them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import Field, StringConstraints, TypeAdapter

from nodewise.core.cell import Frozen
from nodewise.core.errors import UserError
from nodewise.core.schema import read_yaml
from nodewise.report.context import ReportContext
from nodewise.report.html import slug
from nodewise.report.page import Page
from nodewise.report.pages import page

GLOSSARY = Path("site/glossary.yaml")
PATH = "glossary.html"

Text = Annotated[str, StringConstraints(min_length=1)]


class Term(Frozen):
    """A term, its meaning, and related terms."""

    term: Text
    means: Text
    see: list[Text] = Field(default_factory=list)


@page("glossary")
def pages(study: ReportContext) -> Iterator[Page]:
    """Yield the glossary, in alphabetical order; the anchor of a term is its `slug`."""
    terms = [
        {
            "term": one.term,
            "anchor": slug(one.term),
            "means": one.means,
            "see": [(slug(other), other) for other in one.see],
        }
        for one in read_glossary()
    ]
    yield Page(PATH, "glossary.md.j2", "Glossary", {"terms": terms}, contents=False)


def read_glossary(path: Path = GLOSSARY) -> list[Term]:
    """Read and check the glossary.

    Raises:
        UserError: the file is missing or invalid, contains a term twice, or refers to a term that
            it does not contain.
    """
    terms = read_yaml(TypeAdapter(list[Term]), path)
    known = [one.term for one in terms]
    for name in known:
        if [slug(other) for other in known].count(slug(name)) > 1:
            raise UserError(f"{path}: the term {name!r} appears twice")
    for one in terms:
        for other in one.see:
            if other not in known:
                raise UserError(f"{path}: {one.term!r} refers to {other!r}, which is not a term")
    return sorted(terms, key=lambda one: one.term.lower())

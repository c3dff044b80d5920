"""The glossary has every term once, in order, and every link to a term works."""

import re
from pathlib import Path

import pytest

from nodewise.core.errors import UserError
from nodewise.core.units import KINDS
from nodewise.report.html import slug
from nodewise.report.pages.glossary import read_glossary

TEMPLATES = [
    *Path("site/templates").rglob("*.j2"),
    *Path("workflow/nodewise/strategies").glob("*/page.md"),
]


def test_terms_are_in_alphabetical_order_with_an_anchor_of_their_own():
    terms = [one.term for one in read_glossary()]
    assert terms == sorted(terms, key=str.lower)
    assert len({slug(term) for term in terms}) == len(terms)


def test_every_term_that_a_template_links_is_there():
    terms = {slug(one.term) for one in read_glossary()}
    used = [
        name
        for template in TEMPLATES
        for name in re.findall(r'm\.term\(url, "([^"]+)"', template.read_text())
    ]
    assert len(used) >= 6 and {slug(name) for name in used} <= terms


def test_every_kind_of_number_is_explained():
    terms = {one.term.lower() for one in read_glossary()}
    assert {kind.removesuffix(" soft") for kind in KINDS} <= terms


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("- {term: A, means: b}\n- {term: a, means: c}", "twice"),
        ("- {term: A, means: b, see: [C]}", "'C', which is not a term"),
        ("- {term: A}", "required"),
        ("- [", "cannot be read as YAML"),
    ],
)
def test_a_misfit_glossary_is_one_clear_line(tmp_path, text, told):
    path = tmp_path / "glossary.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=told):
        read_glossary(path)

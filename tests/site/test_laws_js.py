"""The generated JavaScript laws give the same results as the Python laws, in a real browser."""

import dataclasses

import numpy as np
import pytest

from nodewise.predict.law import LAWS
from nodewise.predict.parts_law import PartsLaw
from nodewise.report.laws_js import laws_script

TRIED = 200
TOLD = [name for name, law in LAWS.items() if issubclass(law, PartsLaw)]


@pytest.fixture(scope="module")
def page(browser):
    page = browser.new_page()
    page.add_script_tag(content=laws_script())
    yield page
    page.close()


def drawn(name, chance):
    """Return a law of the given name with random settings."""
    settings = {}
    for known in dataclasses.fields(LAWS[name]):
        least = known.metadata["least"]
        settings[known.name] = (
            bool(chance.integers(2)) if known.type is bool else least + int(chance.integers(0, 15))
        )
    return LAWS[name](**settings)


def values_of(law, chance):
    values = {p.name: float(10 ** chance.uniform(-6, 0)) for p in law.parameters}
    return values | {p.name: 1e-6 * values[p.name] for p in law.parameters if p.unit == "s/B"}


@pytest.mark.parametrize("name", TOLD)
def test_a_step_is_the_same_in_javascript(page, name):
    chance = np.random.default_rng(len(name))
    asked, expected = [], []
    for _ in range(TRIED):
        law = drawn(name, chance)
        at = (int(chance.integers(1, 65)), int(chance.integers(1, 1025)), 4e6)
        values = values_of(law, chance)
        asked.append([name, values, *at, vars(law)])
        expected.append(float(law.evaluate(values, *at)))
    found = page.evaluate("(all) => all.map((one) => window.nodewiseLaws.step(...one).step)", asked)
    assert found == pytest.approx(expected, rel=1e-6)


def test_nothing_in_the_script_is_made_into_code_by_the_browser():
    assert "eval" not in laws_script() and "new Function" not in laws_script()

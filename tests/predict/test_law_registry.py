"""What every registered law promises, those of other packages too."""

import dataclasses

import numpy as np
import pytest

from nodewise.predict.law import LAWS
from nodewise.report.formulas import law_formula
from nodewise.strategies.declaration import STRATEGIES

every_law = pytest.mark.parametrize("name", LAWS)


def made(name):
    settings = {f.name: f.metadata["least"] + 1 for f in dataclasses.fields(LAWS[name])}
    return LAWS[name](**settings)


@every_law
def test_it_has_a_source_units_and_one_letter_for_each_symbol(name):
    law = LAWS[name]
    assert law.source and law.title
    assert all(p.unit and p.description for p in law.parameters)
    assert all(p.shrink is None or 0 < p.shrink <= 1 for p in law.parameters)
    letters = [symbol.name for symbol in law.symbols().values()]
    assert len(set(letters)) == len(letters)


@every_law
def test_its_formulas_use_only_what_it_declares(name):
    law = LAWS[name]
    parts, step = law.steps_to("step")
    used = step.free_symbols.union(*(part.free_symbols for _, part in parts))
    assert used <= {*law.symbols().values(), *(symbol for symbol, _ in parts)}


@every_law
def test_its_times_are_finite_and_positive(name):
    law = made(name)
    chance = np.random.default_rng(1)
    for _ in range(50):
        p = {c.name: float(chance.uniform(1e-6, 1e-2)) for c in law.parameters}
        times = law.evaluate(p, [1, 2, 3, 64], 32, 1e6)
        assert np.isfinite(times).all() and (times > 0).all()


@every_law
def test_its_formula_is_written_in_mathml(name):
    assert "<math><mrow><mi>t</mi><mo>=</mo>" in law_formula(name)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_names_a_law(strategy):
    exchange = STRATEGIES[strategy].exchange
    assert exchange in ("none", "devices") or LAWS.of_exchange(exchange)

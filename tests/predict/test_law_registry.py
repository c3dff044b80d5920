"""Properties of all registered laws, including those of other packages."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from law_times import step_s
from nodewise.core.exchanges import EXCHANGES
from nodewise.predict.law import LAWS, SYMBOLS, symbol
from nodewise.predict.points import Points
from nodewise.report.formulas import law_formula

UPPER = {"s": 10.0, "s/B": 1e-6, "1": 3.0}


def made(law, *, usual):
    """Return the law with settings that are not its defaults, or with defaults where it has any."""
    needed = {name: of for name, of in law.settings.items() if not usual or of.default is None}
    return law.with_settings(**{name: of.least + 1 for name, of in needed.items()})


USUAL = [made(law, usual=True) for law in LAWS.values()]
ALL = [*USUAL, *(made(law, usual=False) for law in USUAL if law.settings)]
every_law = pytest.mark.parametrize("law", ALL, ids=lambda law: law.text)


@st.composite
def values_of(draw, law):
    """Draw coefficients that a fit may give: at least 0, and links inside a machine not slower."""
    p = {c.name: draw(st.floats(0, UPPER[c.unit])) for c in law.parameters}
    inside = {name: name.removeprefix("inside_") for name in p if name.startswith("inside_")}
    return p | {name: min(p[name], p[between]) for name, between in inside.items()}


def some_values(law, seed=0):
    rng = np.random.default_rng(seed)
    return {c.name: float(rng.uniform(0.05, 1) * UPPER[c.unit]) for c in law.parameters}


@pytest.mark.parametrize("name", LAWS)
def test_it_declares_its_name_source_units_and_the_symbols_of_its_formulas(name):
    law = LAWS[name]
    assert law.name == name
    assert law.source and law.title
    assert all(p.unit and p.description for p in law.parameters)
    assert all(p.shrink is None or 0 < p.shrink <= 1 for p in law.parameters)
    assert len({*law.letters}) == 3 + len(law.parameters) + len(law.settings)
    assert "<math><mrow><mi>t</mi><mo>=</mo>" in law_formula(name)
    used = set().union(*(formula.free_symbols for formula in law.formulas.values()))
    parts = {SYMBOLS[name] for name in law.formulas if name in SYMBOLS}
    assert used <= parts | {*map(symbol, law.letters)}


def test_titles_are_of_one_law_and_names_of_one_coefficient():
    assert len({law.title for law in LAWS.values()}) == len(LAWS)
    coefficients = {(c.name, c.unit, c.scope) for law in LAWS.values() for c in law.parameters}
    assert len({name for name, _, _ in coefficients}) == len(coefficients)


@pytest.mark.parametrize("law", USUAL, ids=lambda law: law.text)
@given(data=st.data(), nodes=st.integers(1, 20), payload=st.floats(0, 1e9))
def test_its_parts_add_up(law, data, nodes, payload):
    p, at = data.draw(values_of(law)), Points.of(nodes, 32, payload)
    seconds = law.seconds(p, at)
    parts = [seconds[name] for name in ("compute", "wait", "input", "communicate")]
    assert all(part >= 0 for part in parts)
    hidden = min(p.get("hidden_share", 0.0), 1.0) * min(parts[0], parts[3])
    assert seconds["step"] == pytest.approx(sum(parts) - hidden)


@every_law
@given(data=st.data())
def test_its_times_are_finite_and_never_fall_with_nodes_or_payload(law, data):
    p = data.draw(values_of(law))
    payload = np.array([[0.0], [1e4], [1e7]])
    times = step_s(law, p, np.arange(1, 10), 32, payload)
    assert np.isfinite(times).all()
    slack = 1e-9 * times.max() + 1e-12
    assert (np.diff(times, axis=0) >= -slack).all()
    assert (np.diff(times, axis=1) >= -slack).all()


@every_law
def test_its_draws_broadcast_against_points(law):
    draws = [some_values(law, seed) for seed in range(3)]
    stacked = {c.name: np.array([[d[c.name]] for d in draws]) for c in law.parameters}
    points = ([1, 2, 3, 64], [1, 1, 64, 64], [1e3, 1e6, 1e6, 1e7])
    times = step_s(law, stacked, *points)
    assert times.shape == (3, 4) and (times > 0).all()
    for row, one in zip(times, draws, strict=True):
        assert row == pytest.approx(step_s(law, one, *points))
    broadcast = step_s(law, draws[0], np.ones((3, 1)), np.ones(4), np.ones((2, 1, 1)))
    assert broadcast.shape == (2, 3, 4)


WITHOUT_SERVERS = [law for law in USUAL if "service_s" not in {c.name for c in law.parameters}]


@pytest.mark.parametrize("law", WITHOUT_SERVERS, ids=lambda law: law.text)
def test_one_node_needs_no_link_unless_it_needs_a_server(law):
    p = some_values(law)
    slow = p | {"latency_s": 1e3, "seconds_per_byte": 1e3}
    assert step_s(law, slow, 1, 8, 1e6) == step_s(law, p, 1, 8, 1e6)
    alone = step_s(law, p | {"codec_seconds_per_byte": 0.0}, 1, 8, 1e6)
    assert alone == pytest.approx(law.seconds(p, Points.of(1, 8, 1e6))["compute"])


@pytest.mark.parametrize("exchange", EXCHANGES.values(), ids=lambda one: one.name)
def test_every_exchange_over_a_network_has_a_law(exchange):
    assert exchange.law in LAWS or (exchange.in_process and exchange.law is None)

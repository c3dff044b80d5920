"""The calculator: its laws are those of Python, and it does what its form says."""

import json

import numpy as np
import pytest

from nodewise.overhead.baselines import BASELINES, LAWS
from nodewise.overhead.formulas import CompressedAllGather, GPipe, ParameterAveraging
from nodewise.overhead.servers import ParameterServer, ParameterServerBound

PAGE = "what-if.html"
TRIED = 200


def settings_of(name, chance):
    """Return a law of that name, what is known of its structure drawn at random."""
    drawn = {
        "averaging": lambda: ParameterAveraging(int(chance.integers(1, 50))),
        "compressed": lambda: CompressedAllGather(float(chance.uniform(0.001, 1))),
        "gpipe": lambda: GPipe(int(chance.integers(1, 16)), float(chance.uniform(0, 1e6))),
        "server": lambda: ParameterServer(int(chance.integers(1, 4)), bool(chance.integers(2))),
        "server_bound": lambda: ParameterServerBound(
            int(chance.integers(1, 4)), bool(chance.integers(2))
        ),
    }
    return drawn.get(name, LAWS[name])()


@pytest.mark.parametrize("name", [name for name in LAWS if name not in BASELINES])
def test_the_laws_of_the_page_are_those_of_the_package(watched, name):
    chance = np.random.default_rng(len(name))
    asked, expected = [], []
    for _ in range(TRIED):
        law = settings_of(name, chance)
        values = {p.name: float(10 ** chance.uniform(-6, 0)) for p in law.parameters}
        values["seconds_per_byte"] = float(10 ** chance.uniform(-10, -6))
        values["compute_deviation_s"] = 0.0
        n, b, payload = int(chance.integers(1, 65)), int(chance.integers(1, 1025)), 4e6
        asked.append([name, values, n, b, payload, vars(law)])
        expected.append(float(law.evaluate(values, n, b, payload)))
    page = watched.open(PAGE)
    found = page.evaluate(
        "(asked) => asked.map((one) => window.nodewiseLaws.step(...one).step)",
        json.loads(json.dumps(asked)),
    )
    assert found == pytest.approx(expected, rel=1e-6)


def answer(page):
    return page.locator(".nw-what-if__answer").inner_text()


def preset(page):
    """Return what the page begins with."""
    return json.loads(page.locator("#nw-presets").inner_text())[0]


def told_s(page):
    """Return the step time (s) that the page tells of the chosen number of nodes."""
    row = page.locator(".nw-what-if__table .nw-chosen td").all_inner_texts()
    number, unit = row[2].split()
    return float(number) * {"s": 1, "ms": 1e-3, "µs": 1e-6}[unit]


def expected_s(first, batch, deviation_s):
    law = LAWS[first["law"]](**first["settings"])
    values = first["values"] | {"compute_deviation_s": deviation_s}
    return float(law.evaluate(values, first["nodes"][-1], batch, first["payload"]))


def test_it_begins_with_a_fitted_curve_and_says_what_the_fit_says(watched, site):
    page = watched.open(PAGE)
    first = preset(page)
    batch = first["batches"][len(first["batches"]) // 2]
    expected = expected_s(first, batch, first["deviations"].get(str(batch), 0.0))
    assert told_s(page) == pytest.approx(expected, rel=0.005)
    assert page.locator(".nw-what-if__warning").inner_text() == ""


def test_batches_that_were_not_measured_are_off_the_straight_line_as_the_fit_has_it(watched):
    page = watched.open(PAGE)
    first = preset(page)
    known = sorted((int(batch), seconds) for batch, seconds in first["deviations"].items())
    batches, deviations = map(np.array, zip(*known, strict=True))
    assert len(batches) > 1
    for batch in (batches[0] // 2, round(np.sqrt(batches[0] * batches[1])), 2 * batches[-1]):
        page.fill("[name=batch]", str(batch))
        share = np.interp(np.log(batch), np.log(batches), deviations / batches)
        assert told_s(page) == pytest.approx(expected_s(first, batch, batch * share), rel=0.005)


def test_typing_changes_the_answer_the_chart_and_the_address_and_a_reload_keeps_it(watched):
    page = watched.open(PAGE)
    before, line = answer(page), page.locator(".line").get_attribute("points")
    page.fill("[name=rate_mbit]", "10")
    page.fill("[name=nodes]", "32")
    assert answer(page) != before
    assert page.locator(".line").get_attribute("points") != line
    assert "rate_mbit=10" in page.url
    assert "nodes=32" in page.url
    warned = page.locator(".nw-what-if__warning").inner_text()
    assert "nodes were measured from" in warned
    assert "rate is not the measured one" in warned
    told = answer(page)
    page.reload()
    page.wait_for_selector("#calculator:not([hidden])")
    assert answer(page) == told
    page.click("#calculator [type=reset]")
    assert answer(page) == before
    assert "?" not in page.url


def test_each_way_asks_for_what_it_needs_and_hides_the_rest(watched):
    page = watched.open(PAGE)
    shown = {"averaging": "period", "compressed": "density", "server": "servers"}
    for law, name in shown.items():
        page.select_option("[name=law]", law)
        assert page.locator(f"[name={name}]").is_visible()
        assert "A step on" in answer(page)
    page.select_option("[name=law]", "ring")
    assert not any(page.locator(f"[name={name}]").is_visible() for name in shown.values())


def test_what_cannot_be_is_said_and_nothing_is_computed(watched):
    page = watched.open(PAGE)
    before = answer(page)
    page.fill("[name=batch]", "0")
    assert "not allowed" in page.locator(".nw-what-if__warning").inner_text()
    assert answer(page) == before


@pytest.mark.parametrize("watched", [{"java_script_enabled": False}], indirect=True)
def test_without_scripts_there_is_a_table(watched, site):
    watched.page.goto(f"{site.as_uri()}/{PAGE}")
    assert not watched.page.locator("#calculator").is_visible()
    assert watched.page.locator("h2#fitted ~ div table tbody tr").count() > 3


@pytest.mark.parametrize("watched", [{"viewport": {"width": 360, "height": 780}}], indirect=True)
def test_it_fits_a_narrow_screen(watched):
    page = watched.open(PAGE)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360

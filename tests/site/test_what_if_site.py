"""The calculator of *Your case* computes what its form says."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from calculator import drawn_s, interval_s
from nodewise.predict.fit import TAILS

pytestmark = pytest.mark.slow

PAGE = "your-case.html"


def answer(page):
    return page.locator(".nw-what-if__answer").inner_text()


def warning(page):
    return page.locator(".nw-what-if__warning").inner_text()


def preset(page, **wanted):
    """Return the preset that the page begins with, or the first one with the values `wanted`."""
    presets = json.loads(page.locator("#nw-presets").inner_text())
    return next(one for one in presets if one.items() >= wanted.items())


def told_s(page):
    """Return the step time in seconds that the page shows for the chosen number of nodes."""
    row = page.locator(".nw-what-if__table .nw-chosen td").all_inner_texts()
    number, unit = row[2].split()[:2]  # Its interval follows.
    return float(number) * {"s": 1, "ms": 1e-3, "µs": 1e-6}[unit]


def told_ends_s(page):
    """Return both ends of the interval of that step time, in seconds."""
    told = page.locator(".nw-what-if__table .nw-chosen td").nth(2).locator(".nw-range")
    return [seconds(end) for end in told.inner_text().split(" to ")]


def begun_with(page):
    """Return the preset that the page begins with, and its batch and nodes."""
    first = preset(page)
    return first, first["batches"][len(first["batches"]) // 2], first["nodes"][-1]


def test_it_begins_with_the_intervals_of_the_fit(watched, site):
    page = watched.open(PAGE)
    first, batch, nodes = begun_with(page)
    rows = pd.read_csv(site / "tables/predictions.csv")
    rows = rows[(rows["curve"] == first["curve"]) & (rows["scenario"] == "all points")]
    (row,) = rows[(rows["batch_per_worker"] == batch) & (rows["nodes"] == nodes)].to_dict("records")
    ends = told_ends_s(page)
    assert ends == pytest.approx([row["low_s"], row["high_s"]], rel=0.01)
    assert ends[0] < told_s(page) < ends[1]
    assert "90 % intervals of the fit" in answer(page)
    assert "counts as exact" not in answer(page)
    assert page.locator(".nw-what-if__chart .band").count() == 1


def test_another_batch_other_nodes_and_another_link_have_the_intervals_of_the_same_draws(watched):
    page = watched.open(PAGE)
    first = preset(page)
    asked = {"batch": 3 * first["batches"][-1], "nodes": 48}
    for name, value in asked.items():
        page.fill(f"[name={name}]", str(value))
    assert told_ends_s(page) == pytest.approx(interval_s(first, *asked.values()), rel=0.005)
    page.fill("[name=rate_mbit]", "77")
    ends = interval_s(first, *asked.values(), seconds_per_byte=8e-6 / 77)
    assert told_ends_s(page) == pytest.approx(ends, rel=0.005)
    assert "What you changed counts as exact: Bandwidth, Mbit/s." in answer(page)
    assert page.locator(".nw-what-if__chart .band").count() == 1


def test_the_interval_of_the_efficiency_is_that_of_the_draws_on_one_node_and_on_several(watched):
    page = watched.open(PAGE)
    first, batch, _ = begun_with(page)
    page.fill("[name=nodes]", "16")
    told = page.locator(".nw-what-if__table .nw-chosen td").nth(8).locator(".nw-range").inner_text()
    ratios = drawn_s(first, batch, 1) / drawn_s(first, batch, 16)
    ends = [float(end) / 100 for end in re.findall(r"[\d.]+", told)]
    assert ends == pytest.approx(np.quantile(ratios, TAILS), rel=0.01)
    page.fill("[name=nodes]", "1")
    assert page.locator(".nw-what-if__table .nw-chosen td").nth(8).inner_text() == "100 %"


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
    assert "changed: Bandwidth, Mbit/s." in warned
    told = answer(page)
    page.reload()
    page.wait_for_selector("#calculator:not([hidden])")
    assert answer(page) == told
    page.click("#calculator [type=reset]")
    assert answer(page) == before
    assert "?" not in page.url


@pytest.mark.parametrize(
    ("name", "typed", "title"),
    [
        ("batch", "0", "Batch per worker"),
        ("batch", "", "Batch per worker"),
        ("rate_mbit", "", "Bandwidth, Mbit/s"),
        ("nodes", "2000", "Nodes"),
    ],
)
def test_what_cannot_be_is_said_and_nothing_is_computed(watched, name, typed, title):
    page = watched.open(PAGE)
    before = answer(page)
    page.fill(f"[name={name}]", typed)
    assert warning(page).startswith(f"{title}: ")
    assert answer(page) == before
    page.reload()
    page.wait_for_selector("#calculator:not([hidden])")
    assert "NaN" not in page.locator("#calculator").inner_text()


@pytest.mark.parametrize(
    "query",
    [
        *("law=xyz", "fixed=x", "batch=abc", "nodes=", "unknown=1"),
        "preset=unknown&batch=7",
    ],
)
def test_an_address_with_values_that_are_not_there_begins_as_fitted(watched, query):
    page = watched.open(PAGE)
    told = page.locator("#calculator").inner_text()
    page = watched.open(f"{PAGE}?{query}")
    assert page.locator("#calculator").inner_text() == told


def rows(page):
    """Return the nodes and the batch in each row of the table."""
    cells = page.locator(".nw-what-if__table tbody tr").evaluate_all(
        "(all) => all.map((row) => [...row.cells].slice(0, 2).map((cell) => cell.textContent))"
    )
    return [tuple(float(text.replace(",", "")) for text in row) for row in cells]


def test_a_global_batch_that_stays_has_an_example_for_every_node(watched):
    page = watched.open(f"{PAGE}?fixed=global&batch=2&nodes=4")
    assert rows(page)[-1] == (8, 1)
    page.fill("[name=batch]", "1")
    page.fill("[name=nodes]", "1")
    assert rows(page) == [(1, 1)]
    assert "NaN" not in page.locator(".nw-what-if__chart").inner_html()


def test_a_link_that_is_chosen_has_its_rate_and_latency_and_typing_is_another(watched):
    page = watched.open(PAGE)
    page.select_option("[name=link]", label="10gbit-tcp")
    rate = float(page.input_value("[name=rate_mbit]"))
    assert rate == 10_000
    assert float(page.input_value("[name=latency_ms]")) == 0.03
    told = answer(page)
    page.reload()
    page.wait_for_selector("#calculator:not([hidden])")
    assert answer(page) == told
    page.fill("[name=rate_mbit]", "77")
    assert page.input_value("[name=link]") == ""


def costs(page):
    """Return nodes, seconds per epoch and price per epoch of each row of the table."""
    texts = page.locator(".nw-what-if__table tbody tr").evaluate_all(
        "(all) => all.map((row) => [...row.cells].map((cell) => cell.firstChild.textContent))"
    )
    return [(int(row[0]), seconds(row[9]), float(row[10].replace(",", ""))) for row in texts]


def seconds(text):
    number, unit = text.replace(",", "").split()
    return float(number) * {"h": 3600, "min": 60, "s": 1, "ms": 1e-3}[unit]


def test_an_epoch_costs_what_its_nodes_cost_for_its_time(watched):
    page = watched.open(f"{PAGE}?examples=1000000&price=2.5")
    for nodes, epoch_s, price in costs(page):
        assert price == pytest.approx(nodes * epoch_s / 3600 * 2.5, rel=2e-3)
    page.select_option("[name=goal]", "cheapest")
    cheapest = min(costs(page), key=lambda row: row[2])
    assert f"Cheapest on {cheapest[0]} node" in answer(page)
    page.select_option("[name=goal]", "efficient")
    assert "an efficiency of at least 80\u00a0%" in answer(page)


@pytest.mark.parametrize("watched", [{"java_script_enabled": False}], indirect=True)
def test_without_scripts_there_is_a_table(watched, site):
    watched.page.goto(f"{site.as_uri()}/{PAGE}")
    assert not watched.page.locator("#calculator").is_visible()
    assert watched.page.locator("details table tbody tr").count() > 3

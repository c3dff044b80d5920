"""Comparisons of several strategies: which experiments make them, and what is drawn."""

import pytest

import make_records as make
from nodewise.results import queries
from nodewise.results.tables import build_tables

WAYS = ("async_sgd", "custom_loop", "mirrored")


def cell(strategy, nodes, **changes):
    return make.cell(strategy=strategy, n=nodes, experiment="ways", study="survey", **changes)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Return tables of a comparison of three strategies, and of an experiment with only one."""
    compared = [cell("single", 1), *(cell(way, n) for way in WAYS for n in (1, 2, 3))]
    records = [make.record(of) for of in [*compared, *(make.cell(n=n) for n in (1, 2))]]
    return build_tables(make.write(records, tmp_path_factory.mktemp("records")), None)


def test_an_experiment_compares_ways_if_it_has_more_than_a_few(tables):
    rows = queries.compared_strategies(tables["curves"])
    assert set(rows["experiment"]) == {"ways"}
    assert set(rows["strategy"]) == {"single", *WAYS}
    few = tables["curves"][tables["curves"]["strategy"] != "mirrored"]
    assert queries.compared_strategies(few).empty


def test_parts_are_compared_on_the_nodes_that_most_strategies_have(tables):
    assert set(queries.compared_parts(tables["curves"])["nodes"]) == {3}
    curves = tables["curves"]
    fewer = curves[(curves["nodes"] < 3) | (curves["strategy"] == "mirrored")]
    assert set(queries.compared_parts(fewer)["nodes"]) == {2}

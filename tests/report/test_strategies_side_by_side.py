"""Comparisons of several strategies: which experiments make them, and what is drawn."""

import pytest

import make_records as make
from nodewise.core.units import write_number
from nodewise.report.figures import draw_figures
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


@pytest.fixture(scope="module")
def drawn(tables):
    return [*draw_figures(tables, {}, {})]


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


def test_the_ideal_is_as_many_times_one_node_as_nodes(drawn):
    (figure,) = [figure for figure in drawn if figure.figure == "ways"]
    rows = figure.data.set_index(["strategy", "nodes"])
    # also for a strategy whose own point on one node differs
    single = rows.loc[("single", 1), "examples_per_s"]
    for strategy in ("custom_loop", "async_sgd"):
        assert rows.loc[(strategy, 3), "ideal"] == pytest.approx(3 * single)
    ranks = [layer["encoding"]["y"]["sort"] for layer in figure.spec()["layer"]]
    best = figure.data.groupby("strategy")["examples_per_s"].max().sort_values(ascending=False)
    assert ranks == [list(best.index)] * len(ranks)
    assert write_number(rows.loc[("mirrored", 3), "examples_per_s"], "") in figure.alt

"""Comparisons of several strategies: which experiments make them, and what is drawn."""

import pandas as pd
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


def test_a_way_that_communicates_within_computing_has_no_part_for_it(tables):
    curves, way = tables["curves"], WAYS[0]
    within = curves.assign(communicate_s=curves["communicate_s"].mask(curves["strategy"] == way, 0))
    parts = queries.compared_parts(within).groupby("strategy")["part"].agg(set)
    assert "communicate" not in parts[way] and "compute" in parts[way]
    assert "communicate" in parts[WAYS[1]]


def test_compared_ways_share_their_charts_and_the_others_have_their_own(drawn):
    of = {}
    for figure in drawn:
        of.setdefault(figure.of.get("experiment"), []).append(figure.figure)
    assert {"ways", "ways-parts"} <= set(of["ways"])
    assert not {"speedup", "efficiency"} & set(of["ways"])
    assert {"speedup", "efficiency"} <= set(of["ntua_steps"]) and "ways" not in of["ntua_steps"]
    (time,) = [figure for figure in drawn if figure.figure == "time"]
    assert set(time.data["experiment"]) == {"ntua_steps"}


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


def test_intervals_of_throughput_hold_the_point_and_are_drawn(tmp_path):
    records = [make.record(cell(way, 2, repeat=repeat)) for way in WAYS for repeat in range(3)]
    tables = build_tables(make.write(records, tmp_path), None)
    drawn = [*draw_figures(tables, {}, {})]
    (figure,) = [figure for figure in drawn if figure.figure == "ways"]
    data = figure.data
    assert (data["low"] <= data["examples_per_s"]).all()
    assert (data["examples_per_s"] <= data["high"]).all() and (data["low"] < data["high"]).all()
    marks = [layer["mark"]["type"] for layer in figure.spec()["layer"]]
    assert marks[-2:] == ["rule", "point"]


def test_curves_of_several_ways_are_told_apart_by_colour(tmp_path):
    epochs = make.EPOCHS
    records = [make.record(cell(way, 2, extent=epochs)) for way in WAYS]
    tables = build_tables(make.write(records, tmp_path), None)
    drawn = [*draw_figures(tables, {}, {})]
    (figure,) = [figure for figure in drawn if figure.figure == "accuracy-by-epoch"]
    layers = figure.spec()["layer"]
    assert {layer["encoding"]["color"]["field"] for layer in layers} == {"series"}
    assert isinstance(figure.data, pd.DataFrame) and figure.data["strategy"].nunique() == len(WAYS)

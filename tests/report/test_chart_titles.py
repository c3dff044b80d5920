"""Titles of charts: each finding follows from the points that count as evidence, or is not told."""

import pytest

import make_records as make
from nodewise.report import evidence
from nodewise.report.figures import draw_figures
from nodewise.results.tables import build_tables


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Two batches on one and on two nodes, launched three times each."""
    cells = [
        make.cell(n=n, batch=batch, repeat=repeat)
        for n in (1, 2)
        for batch in (32, 512)
        for repeat in range(3)
    ]
    folder = tmp_path_factory.mktemp("titles")
    return build_tables(make.write(map(make.record, cells), folder), make.published())


def findings(tables):
    return {
        figure.figure: figure.finding for figure in draw_figures(tables, {}, {}) if figure.finding
    }


def speedup(tables, batch):
    curves = tables["curves"].set_index(["nodes", "batch_per_worker"])["examples_per_s"]
    return curves[2, batch] / curves[1, batch]


def test_speed_ups_are_told_at_the_largest_batch_and_at_the_smallest(tables):
    large, small = (f"{speedup(tables, batch):#.2g}" for batch in (512, 32))
    said = f"2 nodes are {large} times as fast as one at batch 512, {small} times at batch 32"
    assert findings(tables)["speedup"] == said


def test_efficiency_is_a_share_of_ideal_scaling(tables):
    large, small = (f"{50 * speedup(tables, batch):.0f}\u00a0%" for batch in (512, 32))
    said = f"2 nodes reach {large} of ideal scaling at batch 512, {small} at batch 32"
    assert findings(tables)["efficiency"] == said


def test_the_batch_from_which_several_nodes_are_faster_is_told(tables):
    assert speedup(tables, 32) < 1 < speedup(tables, 512)
    assert findings(tables)["batches"] == "2 nodes are faster than one from batch 512 on"


def test_the_largest_part_of_a_step_besides_computing_is_told(tables):
    curves = tables["curves"].set_index(["nodes", "batch_per_worker"])
    point = curves.loc[(2, 32), [f"{part}_s" for part in ("input", "wait", "communicate", "apply")]]
    assert point.idxmax() == "communicate_s"
    assert findings(tables)["split"].startswith("On 2 nodes communicating takes ")


def test_points_that_do_not_count_give_no_finding(tables):
    few = tables["curves"].assign(repeats=evidence.LAUNCHES - 1)
    assert findings(tables | {"curves": few}) == {}


def test_a_finding_is_the_title_and_what_is_plotted_the_subtitle(tables):
    (figure,) = [one for one in draw_figures(tables, {}, {}) if one.figure == "speedup"]
    title = figure.spec()["title"]
    assert title["text"] == figure.finding
    assert title["subtitle"].startswith("Speed-up by nodes · measured")


def test_an_experiment_is_told_by_its_title_and_found_by_its_name(tables):
    (name,) = tables["curves"]["experiment"].unique()
    drawn = {one.figure: one for one in draw_figures(tables, {name: "Steps by nodes"}, {})}
    split = drawn["split"]
    assert split.where == ["Steps by nodes", "MultiWorkerMirroredStrategy"]
    assert "Steps by nodes" in split.spec()["title"]["subtitle"]
    assert split.of["experiment"] == name
    assert set(drawn["time"].data["experiment"]) <= {"Steps by nodes", ""}
    (unknown,) = [one for one in draw_figures(tables, {}, {}) if one.figure == "split"]
    assert unknown.where[0] == name

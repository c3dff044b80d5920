"""Findings, choosing a strategy and claims: every answer follows from the tables."""

import re

import pandas as pd
import pytest

import make_records as make
from nodewise.report import evidence
from nodewise.report.answers import ANSWERS, batch, nodes
from nodewise.report.pages import _choosing
from nodewise.results import comparisons
from nodewise.results.columns import CURVES, ONE_NODE_KEY
from nodewise.results.table_files import typed
from nodewise.results.tables import one_node_reference
from rendering import Texts, draw_all, render

NEW = ("findings.md", "studies/index.md", "glossary.md")


def thrice(nodes, **about):
    """Return records of three launches on each number of nodes."""
    cells = [make.cell(n=n, repeat=repeat, **about) for n in nodes for repeat in range(3)]
    return [make.record(cell) for cell in cells]


def leads(page):
    """Return the answers of a page, as plain text."""
    found = re.findall(r'<p class="nw-lead"[^>]*>(.*?)</p>', page.read_text(), flags=re.DOTALL)
    return [Texts(answer).plain for answer in found]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("findings")
    whole = [make.record(make.cell(n=n, experiment="whole", extent=make.EPOCHS)) for n in (1, 2)]
    records = [*make.grid(batches=(64, 512), repeats=3), *whole]
    tables = make.write_study(folder, records, make.published())
    draw_all(folder)
    return tables, render(folder)


def test_every_answer_has_a_question_of_its_own_and_a_place_on_the_page(study):
    docs = study[1]
    orders = [ANSWERS[name].order for name in ANSWERS]
    assert len(set(orders)) == len(orders) == len(leads(docs / "findings.md"))
    heads = re.findall(r"^## .* \{ #([a-z]+) \}$", (docs / "findings.md").read_text(), re.MULTILINE)
    ranked = sorted(ANSWERS, key=lambda name: ANSWERS[name].order)
    assert heads == ranked


def test_the_best_speed_up_is_that_of_the_table(study):
    tables, docs = study
    curves = tables["curves"]
    told = curves[(curves["nodes"] > 1) & (curves["flags"] == "") & (curves["repeats"] >= 3)]
    gains, best = int((told["speedup"] > 1).sum()), told["speedup"].max()
    answer = leads(docs / "findings.md")[0]
    assert f"faster than on one in {gains} of {len(told)} comparisons" in answer
    assert f"The highest speed-up was {best:.2f}×" in answer


def speedups(values):
    """Return a table of points, given as (speed-up, lower end of its interval)."""
    return pd.DataFrame(values, columns=["speedup", "speedup_low"], dtype="float64")


@pytest.mark.parametrize(
    ("gains", "said"),
    [
        ([], ""),
        (
            [(3.0, 2.5), (1.5, 1.1), (1.2, 0.7)],
            " In 2 of these the 90 % interval of the speed-up lies above 1; in 1 it includes 1.",
        ),
        (
            [(1.2, 0.7)],
            " In none of these does the 90 % interval of the speed-up lie above 1.",
        ),
    ],
)
def test_of_the_faster_points_it_is_counted_how_many_are_clearly_so(gains, said):
    told = Texts(nodes._how_sure(speedups(gains))).plain
    assert told.startswith(said) if said else not told


def test_which_batch_compares_the_smallest_and_the_largest(study):
    tables, docs = study
    rows = comparisons.on_several_nodes(tables["curves"])
    rows = evidence.select(evidence.check_times(rows, tables, other="_one"))
    lines = [line for _, line in rows.groupby(["experiment", "line", "nodes"])]
    longest = max(lines, key=len).sort_values("batch_per_worker")
    answer = leads(docs / "findings.md")[1]
    for row in (longest.iloc[0], longest.iloc[-1]):
        assert f"{row['speedup']:.2f}× measured" in answer
        assert f" at {row['batch_per_worker']} " in answer


@pytest.mark.parametrize(
    ("points", "how", "pay"),
    [
        ([(0.5, 0.4, 0.6), (1.5, 1.2, 1.8)], "are better", "faster than one at 64."),
        ([(0.5, 0.1, 2.0), (1.5, 0.4, 5.0)], "are not clearly better", "at 64 the 90 % interval"),
        ([(1.5, 1.2, 1.8), (1.4, 1.2, 1.7)], "are not always better", "faster than one at all of"),
        ([(0.5, None, None), (0.6, None, None)], "are better", "faster than one at none"),
    ],
)
def test_larger_batches_are_better_as_far_as_the_intervals_tell(points, how, pay):
    line = pd.DataFrame(points, columns=["speedup", "speedup_low", "speedup_high"], dtype="float64")
    line = line.assign(batch_per_worker=[32, 64])
    assert f"Larger batches {how}" in batch._how_batch_matters(line)
    assert pay in batch._batches_that_pay(line).replace("\u00a0", " ")


def test_a_speed_up_has_the_interval_that_its_launches_leave(study):
    rows = comparisons.on_several_nodes(study[0]["curves"])
    told = rows[rows["speedup_low"].notna()]
    assert len(told)
    assert (told["speedup_low"] <= told["speedup"]).all()
    assert (told["speedup"] <= told["speedup_high"]).all()
    once = rows[rows["repeats"] == 1]
    assert len(once)
    assert once["speedup_low"].isna().all()


def test_parts_that_take_far_longer_than_the_step_are_a_caution(study):
    curves = study[0]["curves"]
    assert not comparisons.parts(curves)["flags"].str.contains("far longer").any()
    slow = comparisons.parts(curves.assign(communicate_s=curves["step_time_s"]))
    assert slow["flags"].str.contains("its parts take far longer than the step").all()


def test_comparisons_that_do_not_count_are_counted_and_decide_nothing(study):
    tables, docs = study
    rows = comparisons.on_several_nodes(tables["curves"])
    left_out = int(((rows["flags"] != "") | (rows["repeats"] < 3)).sum())
    assert left_out  # Three workers share two cores, which is a caution.
    told = f"{left_out} of {len(rows)} comparisons do not count as evidence"
    assert told in Texts((docs / "findings.md").read_text()).plain
    assert not any("on 3 nodes" in answer for answer in leads(docs / "findings.md"))


def test_each_answer_links_the_curves_that_it_rests_on(study):
    page = (study[1] / "findings.md").read_text()
    cells = re.findall(r'href="(curves/[^"]+\.html)"', page)
    assert cells and all((study[1] / cell).with_suffix(".md").is_file() for cell in cells)


@pytest.mark.slow
def test_an_answer_that_turns_with_the_tables_is_told_the_other_way(tmp_path):
    make.write_study(tmp_path, thrice(nodes=(1, 2)))
    last = "On several nodes, training was faster than on one in "
    answer = leads(render(tmp_path) / "findings.md")[0]
    assert f"{last}1 of 1 comparison." in answer
    path = tmp_path / "tables" / "curves.parquet"
    curves = pd.read_parquet(path)
    speed = curves["examples_per_s"].where(curves["nodes"] == 1, 1.0)
    ratio = speed / curves["examples_per_s"]
    curves.assign(examples_per_s=speed, speedup=curves["speedup"] * ratio).to_parquet(path)
    answer = leads(render(tmp_path) / "findings.md")[0]
    assert answer.endswith(f"{last}none of 1 comparison.")


def test_trainings_that_went_through_the_same_weights_count_as_one(tmp_path):
    ways = ((1, "single"), (2, "custom_loop"), (2, "mpi"))
    records = [
        record
        for n, way in ways
        for record in thrice(nodes=(n,), experiment="whole", extent=make.EPOCHS, strategy=way)
    ]
    printed = make.published().query("batch_per_worker == 64")
    make.write_study(tmp_path, records, printed)
    page = render(tmp_path) / "findings.md"
    assert [said for said in leads(page) if "of our 1 training" in said]
    assert "trainings with equal accuracies are counted once" in Texts(page.read_text()).plain


def test_without_a_record_every_question_says_that_nothing_was_measured(tmp_path):
    make.write_study(tmp_path, [])
    docs = render(tmp_path)
    nothing = "Too little evidence. Nothing comparable was measured"
    answers = leads(docs / "findings.md")
    assert len(answers) == 6 and all(answer.startswith(nothing) for answer in answers)
    assert Texts((docs / "your-case.md").read_text()).plain.count(nothing) == 2


def test_a_model_with_markup_in_its_name_is_shown_and_is_no_element(tmp_path):
    make.write_study(tmp_path, [make.record(make.cell(n=n)) for n in (1, 2)])
    for name in ("curves", "cells"):
        path = tmp_path / "tables" / f"{name}.parquet"
        pd.read_parquet(path).assign(model="<script>alert(1)</script>").to_parquet(path)
    docs = render(tmp_path)
    for page in NEW:
        shown = Texts((docs / page).read_text())
        assert "script" not in shown.tags
    assert "<script>alert(1)</script>" in Texts((docs / "findings.md").read_text()).plain


# --- what is compared ---


def test_a_caution_about_the_one_node_is_one_about_the_speed_up():
    curves = make_curves([("single", 1, 1000.0), ("mpi", 2, 900.0)])
    curves.loc[curves["nodes"] == 1, "flags"] = "another process ran"
    (told,) = comparisons.on_several_nodes(curves)["flags"]
    assert told == "on one node: another process ran"


def test_devices_of_one_machine_are_not_several_nodes():
    curves = make_curves([("single", 1, 1000.0), ("mirrored", 2, 1900.0)], exchange="devices")
    assert comparisons.on_several_nodes(curves).empty


def make_curves(points, exchange="ring"):
    """Return curves, given as (strategy, nodes, examples per second)."""
    nothing = {"str": "", "int64": 0, "bool": False, "float64": float("nan"), "Int64": pd.NA}
    empty = {name: nothing[dtype] for name, dtype in CURVES.items()}
    told = {"kind": "measured", "flags": "", "batch_per_worker": 64}
    rows = [
        told
        | {"strategy": name, "nodes": nodes, "examples_per_s": rate}
        | {"exchange": exchange if nodes > 1 else "none", "cell_id": f"{name}/{nodes}"}
        for name, nodes, rate in points
    ]
    table = typed([empty | row for row in rows], CURVES)
    rows = one_node_reference(
        table.drop(columns="cell_id_one"),
        [*ONE_NODE_KEY, "machine"],
        ["examples_per_s", "cell_id"],
    )
    speedup = rows["examples_per_s"] / rows["examples_per_s_one"]
    rows = rows.assign(speedup=speedup, efficiency=speedup / rows["nodes"])
    return rows.fillna({"cell_id_one": ""})


def rated(points):
    """Return points, given as (strategy, examples per second, low, high).

    `low` and `high` are the ends of the interval of the step time, relative to the step time.
    """
    rows = [
        {"strategy": name, "examples_per_s": rate, "step_time_s": 1 / rate}
        | {"step_time_low_s": low / rate, "step_time_high_s": high / rate}
        for name, rate, low, high in points
    ]
    return pd.DataFrame(rows).astype({"step_time_low_s": "float64", "step_time_high_s": "float64"})


def test_strategies_whose_intervals_overlap_with_the_fastest_may_be_as_fast():
    group = rated([("b", 95.0, 0.9, 1.1), ("a", 100.0, 0.9, 1.1), ("c", 50.0, 0.9, 1.1)])
    assert comparisons.not_slower(group) == ["b"]


def test_an_interval_of_the_throughput_is_that_of_the_step_time():
    (row,) = comparisons.with_rate_intervals(rated([("a", 100.0, 0.8, 1.25)])).to_dict("records")
    assert row["examples_per_s_low"] == pytest.approx(80)
    assert row["examples_per_s_high"] == pytest.approx(125)


def test_the_rule_of_the_ratio_counts_the_points_that_are_certain_apart():
    ends = {"speedup_low": [1.1, 0.5, 0.4, None], "speedup_high": [2.0, 3.0, 0.9, None]}
    rows = pd.DataFrame(ends, dtype="float64")
    told = _choosing._surely(rows, pd.Series([True, False, True, False]))
    assert "among them all 2 whose" in told
    assert "among them 1 of the 2" in _choosing._surely(rows, pd.Series([True, False, False, True]))
    assert _choosing._surely(rows.iloc[[3]], pd.Series([True], index=[3])) == ""

"""Findings, choosing a strategy and claims: every answer follows from the tables."""

import re

import pandas as pd
import pytest

import make_records as make
from nodewise.report.answers import ANSWERS
from nodewise.results import comparisons
from nodewise.results.columns import CURVES, ONE_NODE_KEY
from nodewise.results.table_files import typed
from nodewise.results.tables import one_node_reference
from rendering import Texts, render

NEW = ("findings.md", "studies/index.md", "glossary.md")


def leads(page):
    """Return the answers of a page, as plain text."""
    found = re.findall(r'<p class="nw-lead"[^>]*>(.*?)</p>', page.read_text(), flags=re.DOTALL)
    return [Texts(answer).plain for answer in found]


@pytest.fixture(scope="module")
def curves(study):
    return pd.read_parquet(study / "tables/curves.parquet")


@pytest.fixture(scope="module")
def docs(study):
    return study / "docs"


def test_every_answer_has_a_question_of_its_own_and_a_place_on_the_page(docs):
    orders = [ANSWERS[name].order for name in ANSWERS]
    assert len(set(orders)) == len(orders) == len(leads(docs / "findings.md"))
    heads = re.findall(r"^## .* \{ #([a-z]+) \}$", (docs / "findings.md").read_text(), re.MULTILINE)
    ranked = sorted(ANSWERS, key=lambda name: ANSWERS[name].order)
    assert heads == ranked


def test_the_best_speed_up_is_that_of_the_table(docs, curves):
    told = curves[(curves["nodes"] > 1) & (curves["flags"] == "") & (curves["repeats"] >= 3)]
    gains, best = int((told["speedup"] > 1).sum()), told["speedup"].max()
    answer = leads(docs / "findings.md")[0]
    assert f"faster than on one in {gains} of {len(told)} comparisons" in answer
    assert f"The highest speed-up was {best:.2f}×" in answer


def test_comparisons_that_do_not_count_are_counted_and_decide_nothing(docs, curves):
    rows = comparisons.on_several_nodes(curves)
    left_out = int(((rows["flags"] != "") | (rows["repeats"] < 3)).sum())
    assert left_out  # Three workers share two cores, which is a caution.
    told = f"{left_out} of {len(rows)} comparisons do not count as evidence"
    assert told in Texts((docs / "findings.md").read_text()).plain
    assert not any("on 3 nodes" in answer for answer in leads(docs / "findings.md"))


def test_each_answer_links_the_curves_that_it_rests_on(docs):
    page = (docs / "findings.md").read_text()
    cells = re.findall(r'href="(curves/[^"]+\.html)"', page)
    assert cells and all((docs / cell).with_suffix(".md").is_file() for cell in cells)


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

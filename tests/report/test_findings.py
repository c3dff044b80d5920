"""Findings, choosing a strategy and claims: every answer follows from the tables."""

import re

import pandas as pd
import pytest

import make_records as make
from nodewise.report.answers import ANSWERS
from nodewise.results import comparisons
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


def test_a_speed_up_has_the_cautions_of_its_one_node_and_devices_are_not_nodes(curves):
    alone = curves["nodes"] == 1
    flagged = curves.assign(flags=curves["flags"].mask(alone, "another process ran"))
    rows = comparisons.on_several_nodes(flagged)
    assert rows["flags"].str.contains("on one node: another process ran").all()
    assert "mirrored" in set(curves["strategy"]) - set(rows["strategy"])


def test_strategies_whose_intervals_overlap_with_the_fastest_may_be_as_fast():
    rates = pd.Series({"b": 95.0, "a": 100.0, "c": 50.0}, name="examples_per_s")
    rows = rates.rename_axis("strategy").reset_index().assign(step_time_s=1 / rates.to_numpy())
    rows = rows.assign(
        step_time_low_s=0.8 * rows["step_time_s"], step_time_high_s=1.25 * rows["step_time_s"]
    )
    assert comparisons.not_slower(rows) == ["b"]
    of_a = comparisons.with_rate_intervals(rows).set_index("strategy").loc["a"]
    assert (of_a["examples_per_s_low"], of_a["examples_per_s_high"]) == pytest.approx((80, 125))

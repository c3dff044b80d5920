"""Findings, choosing a strategy and claims: every answer follows from the tables."""

import pandas as pd
import pytest

import make_records as make
from nodewise.report.context import read_context
from nodewise.report.pages.findings import _energy
from nodewise.results import comparisons
from rendering import CONFIG, Texts, leads, render


@pytest.fixture(scope="module")
def curves(study):
    return pd.read_parquet(study / "tables/curves.parquet")


def test_the_best_and_the_worst_speed_up_are_those_of_the_table(docs, curves):
    rows = curves[(curves["nodes"] > 1) & (curves["flags"] == "") & (curves["repeats"] >= 3)]
    faster, ends = int((rows["speedup"] > 1).sum()), rows["speedup"].agg(["min", "max"])
    answer = leads(docs / "findings.md")[0]
    assert f"in {faster} of {len(rows)} comparisons" in answer
    assert "from {:#.2g} to {:#.2g} times".format(*ends) in answer


def test_cpu_time_is_not_told_as_energy(study):
    context = read_context(CONFIG, study)
    assert not _energy(context)["metered"]
    assert "CPU time" in leads(study / "docs/findings.md")[-1]
    context.tables["cells"]["energy_kind"] = "measured"
    assert _energy(context)["metered"]


def test_a_model_with_markup_in_its_name_is_shown_and_is_no_element(tmp_path):
    make.write_study(tmp_path, make.launches(n=(1, 2), batch=(64, 512)))
    for name in ("curves", "cells"):
        path = tmp_path / "tables" / f"{name}.parquet"
        rows = pd.read_parquet(path).assign(model="<script>alert(1)</script>")
        rows["kind"] = rows["kind"].mask(rows["batch_per_worker"] == 512, "emulated")
        rows.to_parquet(path)
    docs = render(tmp_path)
    first = leads(docs / "findings.md")[0].split()
    assert first.index("measured") < first.index("emulated.")  # each end has its kind
    for page in docs.rglob("*.md"):
        assert "<script>alert" not in page.read_text()
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
    for name, factor in (("step_time_low_s", 0.8), ("step_time_high_s", 1.25)):
        rows[name] = factor * rows["step_time_s"]
    assert comparisons.not_slower(rows) == ["b"]
    of_a = comparisons.with_rate_intervals(rows).set_index("strategy").loc["a"]
    assert (of_a["examples_per_s_low"], of_a["examples_per_s_high"]) == pytest.approx((80, 125))

"""Examples to a target by global batch: published points, own counts, and answers with them."""

from pathlib import Path

import convergence
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import commands
from mistakes import user_error
from nodewise.predict.steps_to_accuracy import (
    fit_counted,
    law_like,
    parse_counts,
    published_laws,
    rate_exponent,
)


def test_points_and_submissions_left_out_are_as_near_as_the_site_says():
    judged = convergence.points_left_out(), convergence.submissions(), convergence.minutes()
    rows = pd.DataFrame([row for rows in judged for row in rows])
    said = pd.read_csv("data/published/convergence/judged.csv").set_index("judged")
    for name, part in rows.groupby("judged"):
        found = convergence.summary(part)
        for column in ("median", "p90", "covered"):
            assert found[column] == pytest.approx(said.loc[name, column], abs=2e-3), name
    assert said.loc["between other batches", "median"] <= 0.04
    assert said.loc["the largest batch", "median"] <= 0.07
    assert said.loc["larger submissions", "p90"] <= 0.16
    assert said.loc["larger submissions, batch at least doubled", "median"] <= 0.06
    assert said.loc["minutes of larger submissions", "median"] <= 0.14
    assert said["covered"].between(0.85, 0.95).all()
    assert (said["median"] < said["constant_median"]).all()


@given(st.floats(1e3, 1e9), st.floats(30, 1e5), st.integers(0, 10**6))
def test_counts_by_the_law_give_it_back(examples, critical, seed):
    batch = critical * np.repeat([0.25, 0.5, 1, 2, 4], 3)
    chance = np.random.default_rng(seed).standard_normal(len(batch))
    counted = examples * (1 + batch / critical) * np.exp(0.01 * chance)
    law = fit_counted(batch, counted)
    assert law.examples(batch)[0] == pytest.approx(counted, rel=0.1)
    low, high = law.critical_batch_interval
    assert low < critical < high


@given(st.sampled_from(sorted(published_laws())), st.floats(8, 1e5), st.floats(1e4, 1e10))
def test_own_counts_give_the_level_of_a_published_law(name, batch, examples):
    law, known = law_like(name, ((batch, examples),)), published_laws()[name]
    assert law.examples(batch)[0] == pytest.approx(examples)
    assert law.critical_batch == pytest.approx(known.critical_batch)


@pytest.mark.parametrize("name", ["bert", "maskrcnn", "resnet"])
@pytest.mark.parametrize(("off", "least", "most"), [(1.01, 0.0, 0.2), (0.3, 0.98, 1.0)])
def test_a_count_far_off_the_law_is_a_level_and_a_near_one_its_batchs_own(name, off, least, most):
    known = published_laws()[name]
    few, twice, many = known.examples([256, 512, 256_000])[0]
    law = law_like(name, ((256, off * few),))
    share, near = np.log(law.examples([256_000, 512])[0] / [many, twice]) / np.log(off)
    assert least <= share <= most
    assert near == pytest.approx((1 + share) / 2, abs=0.01)


@given(st.dictionaries(st.integers(1, 10**6), st.integers(1, 10**12), min_size=1, max_size=5))
def test_counts_are_read_as_they_are_written(counts):
    text = ",".join(f"{batch}:{examples}" for batch, examples in counts.items())
    assert dict(parse_counts(text)) == counts


@pytest.mark.parametrize("text", ["12", "a:b", "0:5", "5:-1", "1:2:3", "8:5,8:6", "nan:1"])
def test_counts_that_mean_nothing_are_refused(text):
    assert "--samples-to-target" in user_error(parse_counts, text)


def test_a_forecast_to_a_target_counts_the_examples_of_each_batch():
    options = ("forecast", "--throughput", 400, "--batch", 64, "--parameters", 25.6e6)
    options += ("--link", "100gbit-rdma", "--nodes", "1,8,64")
    rows = commands.ask(*options, "--converges-like", "resnet")
    law = published_laws()["resnet"]
    for row in rows:
        batch = 64 * row["devices"]
        assert row["samples"] == pytest.approx(law.examples(batch)[0, 0])
        assert row["time"] == pytest.approx(row["samples"] / row["samples_per_s"])
        assert row["samples_low"] < row["samples"] < row["samples_high"]
    plain = commands.ask(*options, "--examples", 1000)
    assert {row["samples"] for row in plain} == {1000}


def test_a_noise_scale_gives_the_critical_batch_and_a_count_the_level():
    (path,) = Path("data/records").glob("*/reference/noise_scale/fashion_cnn.json")
    law = law_like(str(path), ((64, 1e6),))
    assert law.examples(64)[0] == pytest.approx(1e6)
    assert law.critical_batch == pytest.approx(45.2, abs=0.1)  # as in the study's table
    assert "--samples-to-target" in user_error(law_like, str(path))
    assert "nothing.json" in user_error(law_like, "nothing.json")


def test_learning_rates_that_follow_a_rule_have_its_exponent():
    known = {name: rate_exponent(name) for name in published_laws()}
    assert known["openfold"] is None  # two batches
    for name, exponent in {"resnet": 0.3, "maskrcnn": 0.9, "llama31_405b": 1.0}.items():
        value, error, batches = known[name]
        assert value == pytest.approx(exponent, abs=0.05) and error < 0.05 and batches >= 4


def test_at_a_fixed_global_batch_the_batch_of_a_device_shrinks():
    options = ("forecast", "--throughput", 2900, "--given-devices", 8, "--nodes", "4,16,512")
    options += ("--devices-per-node", 1, "--batch", 64, "--parameters", 25e6, "--link", "hdr")
    fixed = {row["devices"]: row for row in commands.ask(*options, "--global-batch", 512)}
    assert max(fixed) == 512 and fixed[512]["batch_per_device"] == 1
    assert (fixed[8]["kind"], fixed[8]["samples_per_s"]) == ("measured", 2900)
    grows = {row["devices"]: row for row in commands.ask(*options)}
    # a device is slower with fewer examples per step, and faster with more
    assert 2900 < fixed[16]["samples_per_s"] < grows[16]["samples_per_s"]
    assert fixed[4]["samples_per_s"] > grows[4]["samples_per_s"]


def test_cases_ask_for_the_examples_at_another_batch(tmp_path):
    known = "25.6e6,8,8,2900,64,resnet,38e6,2048"
    lines = [f"{known},16384", f"{known},", known.replace("resnet", "x") + ",4096"]
    header = "parameters,devices_per_node,baseline_devices,throughput_samples_per_s,n_devices"
    header += ",converges_like,samples_to_target,global_batch,global_batch_asked"
    (tmp_path / "cases.csv").write_text("\n".join([header, *lines]))
    asked, plain, wrong = commands.ask("forecast", "--cases", tmp_path / "cases.csv")
    law = law_like("resnet", ((2048, 38e6),))
    assert asked["samples"] == pytest.approx(law.examples(16384)[0, 0])
    few, many = published_laws()["resnet"].examples([2048, 16384])[0]
    low, high = sorted([many, 38e6 * many / few])
    assert low < asked["samples"] < high
    for name in ("samples", "minutes"):
        assert asked[f"{name}_low"] < asked[name] < asked[f"{name}_high"]
    assert asked["minutes"] == pytest.approx(asked["samples"] / asked["value"] / 60)
    assert "samples" not in plain and plain["value"] == pytest.approx(asked["value"])  # 256 each
    assert "resnet" in wrong["error"]
    assert "Time to target" in commands.run("forecast", "--cases", tmp_path / "cases.csv").stdout


def test_what_is_unknown_of_a_target_is_said():
    assert law_like(None, ()) is None
    assert "two" in user_error(law_like, None, ((256, 1e6),))
    assert "resnet" in user_error(law_like, "resnet-9000", ())
    assert "--samples-to-target" in user_error(law_like, "cosmoflow", ())

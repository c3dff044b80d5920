"""Home, Tested on published curves and Time to accuracy: their answers follow from known rows."""

import re

import corpus
import next_measurement
import numpy as np
import pandas as pd
import pytest

import make_records as make
from nodewise.predict.similar_curves import PUBLISHED, read_published
from nodewise.predict.steps_to_accuracy import published_laws
from nodewise.report.context import read_context
from nodewise.report.pages import PAGES, home
from nodewise.report.published_rows import SLOW, continued, forecasts, scaling
from nodewise.results import published
from nodewise.results.importers import import_curves
from rendering import CONFIG, Texts, render


def page_of(folder, name):
    (page,) = PAGES[name](read_context(CONFIG, folder))
    return page


# --- what others published ---


def test_the_efficiency_of_a_publisher_is_the_median_over_its_runs_of_what_the_source_says():
    cases = published.published_cases().query("publisher == 'PaddlePaddle/Perf'")
    cases = cases[cases["model"] == "ResNet-50 v1.5"]
    rates = {n: rows["throughput_samples_per_s"].values for n, rows in cases.groupby("n_devices")}
    rows = scaling().query("kind == 'published' and publisher == 'PaddlePaddle/Perf'")
    rows = rows[rows["model"] == "ResNet-50"].set_index(["link", "devices"])["efficiency"]
    assert rows["NVLink", 8] == pytest.approx(np.median(rates[8] / rates[1] / 8), rel=1e-4)


def test_eight_gpus_on_slow_ethernet_are_forecast_as_practitioners_know_it():
    rows = scaling()
    rows = rows[(rows["devices"] == 8) & (rows["link"] == SLOW)].set_index("model")
    assert set(rows["kind"]) == {"predicted"}
    assert 5 < 8 * rows.loc["ResNet-50", "efficiency"] < 7.5
    assert rows.loc["BERT-base", "efficiency"] < rows.loc["VGG-16", "efficiency"]
    assert (rows["low"] < rows["efficiency"]).all() and (rows["efficiency"] < rows["high"]).all()


# --- home ---


def test_home_answers_for_real_devices_even_if_a_study_measured_nothing(tmp_path):
    make.write_study(tmp_path, [make.failed(make.cell(), "lost", [])])
    context = page_of(tmp_path, "home").context
    rows = scaling()
    for model in context["models"]:
        mine = rows[(rows["model"] == model["name"]) & (rows["devices"] == 8)]
        nvlink = mine[(mine["link"] == "NVLink") & (mine["kind"] == "published")]
        assert model["fast"] == 8 * nvlink["efficiency"].median() > 7
        assert model["publishers"] == len(nvlink)
    assert context["study"] is None and context["links"] is None


@pytest.mark.slow
def test_the_study_is_told_by_its_largest_and_smallest_batch_with_time_to_accuracy(tmp_path):
    tables = make.write_study(tmp_path, make.launches(n=(1, 2), batch=(32, 512)))
    told = page_of(tmp_path, "home").context["study"]
    curves = tables["curves"].set_index(["nodes", "batch_per_worker"])
    assert [point["batch_per_worker"] for point in told["points"]] == [512, 32]
    for point in told["points"]:
        assert point["speedup"] == curves.loc[(2, point["batch_per_worker"]), "speedup"]
    text = Texts((render(tmp_path) / "index.md").read_text()).plain
    assert f"{told['points'][0]['speedup']:.2g} times as fast as one" in text
    assert "How soon the nodes reach an accuracy is not known" in text


def test_no_number_on_home_is_of_two_launches_or_of_a_crowded_machine(tmp_path):
    crowded = make.launches(n=(3,))  # on two cores
    make.write_study(tmp_path, [*make.launches(n=(1, 2), repeats=2), *crowded])
    assert page_of(tmp_path, "home").context["study"] is None
    text = (render(tmp_path) / "index.md").read_text()
    assert "too little evidence" in text and "repeats: 3" in text
    assert "\nnodewise missing --config FILE --cautions --forget\nsnakemake --cores all" in text
    (best,) = page_of(tmp_path, "home").context["unsure"]["best"]
    assert (best["nodes"], best["needs"]) == (2, "at least three launches of each point")


def test_only_points_that_differ_in_nothing_but_the_link_say_what_a_link_does(tmp_path):
    records = []
    for cpu, rate in ((0.2, 25), (0.2, 400), (0.4, 800)):
        cluster = {"kind": "emulated", "node": {"cpu": cpu}, "link": {"rate_mbit": rate}}
        records += make.launches(n=(1, 2), cluster=[cluster], experiment=[f"link_{rate}"])
    records = [record.model_copy(update={"kind": "emulated"}) for record in records]
    make.write_study(tmp_path, records)
    links = home._links(read_context(CONFIG, tmp_path))
    assert [point["rate_mbit"] for point in links["ends"]] == [25, 400]


# --- tested on published curves ---


def test_the_errors_are_those_of_the_committed_predictions_and_next_beats_doubling(study):
    context = page_of(study, "tested").context
    rows = pd.read_csv("data/published/curves/predicted_curves.csv")
    off = np.expm1(rows["ours"].abs())
    assert context["curves"]["count"] == len(rows) == len(read_published())
    assert context["curves"]["median"] == pytest.approx(off.median())
    assert context["curves"]["covered"] == pytest.approx(rows["covered"].mean())
    cases = forecasts()
    assert context["cases"]["points"] == len(cases)
    assert abs(cases["inside"].mean() - context["cases"]["covered"]) < 0.03  # weighted there
    found = context["next"]
    assert found["next_measured"] < found["doubling_measured"]
    assert found["next_good"] >= found["doubling_good"]


def test_misses_come_first_and_every_curve_and_case_links_to_its_source(study):
    context = page_of(study, "tested").context
    tests = pd.concat([continued(), forecasts()])
    first = context["misses"].rows[0]
    assert f"{100 * tests['off'].max():.0f}" in first[1].striptags()
    runs = published.read("forecast/predicted_cases").groupby(["case", "given_value"]).ngroups
    assert len(context["every"].rows) == len(read_published()) + runs
    assert all(re.search(r'<a href="https://\S+">', row[0]) for row in context["every"].rows)
    assert tests["unit"].str.contains("/").all()  # a time says what took it


def test_predictions_of_publishers_left_out_reach_their_levels():
    rows = published.read("curves/predicted_curves")
    found = corpus.levels(rows)
    assert found["median"].idxmin() == found["mean of log"].idxmin() == "ours"
    assert found.loc["ours", "median"] <= 6.9
    assert found.loc["ours", "mean of log"] <= 15.8
    assert found.loc["ours", "p90"] <= 45
    assert found["width"].idxmin() == "ours"
    assert 0.85 <= rows["covered"].mean() <= 0.95


@pytest.mark.slow
def test_the_tables_of_the_page_are_what_their_scripts_make():
    made = corpus.predict_all().drop(columns="groups")
    written = published.read("curves/predicted_curves")
    pd.testing.assert_frame_equal(made, written, rtol=1e-3, atol=1e-4)
    followed = next_measurement.compare_all(import_curves(PUBLISHED).curves)
    known = published.read("curves/next_measurements")
    assert (followed["next_measured"] == known["next_measured"]).mean() > 0.95
    assert followed["doubling_measured"].tolist() == known["doubling_measured"].tolist()


# --- time to accuracy ---


def test_published_critical_batches_stand_beside_our_own_with_how_far_off_the_law_was(study):
    html = (study / "docs/time-to-accuracy.md").read_text()
    for law in published_laws().values():
        assert f'<data value="{float(f"{law.critical_batch:.2g}"):.6g}">' in html
    judged = published.read("convergence/judged")
    for row in judged.to_dict("records"):
        assert f'<data value="{row["median"]:.6g}"' in html
    worst = judged.loc[judged["median"].idxmax(), "judged"]
    assert worst in html


def test_the_example_has_the_time_of_published_devices_and_the_examples_of_the_law(study):
    context = page_of(study, "time_to_accuracy").context
    first, last = context["example"]["ends"]
    law = published_laws()["resnet"]
    cases = published.published_cases().query("case == 'dlperf-150' and n_devices == 8")
    rate = cases["throughput_samples_per_s"].iloc[0]
    batch = 8 * cases["batch_per_device"].iloc[0]
    assert first["time"] == pytest.approx(law.examples([batch])[0, 0] / rate)
    assert first["cost"] == pytest.approx(3 * 8 * first["time"] / 3600)
    assert last["samples"] == pytest.approx(law.examples([64 * batch])[0, 0])
    assert context["ends"][0]["critical_batch"] < context["ends"][1]["critical_batch"]

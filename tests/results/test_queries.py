"""The rows of the tables that charts and pages show."""

import pandas as pd
import pytest

import make_records as make
from nodewise.results import queries


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    return make.tables_of(make.grid(), tmp_path_factory.mktemp("records"), make.published())


def at(rows, **where):
    for name, value in where.items():
        rows = rows[rows[name] == value]
    assert len(rows) == 1
    return rows.iloc[0]


def test_a_single_point_without_other_strategies_is_its_own_line(tmp_path):
    tables = make.tables_of([make.record(make.cell())], tmp_path)
    assert queries.scaling_lines(tables["curves"])["line"].tolist() == ["single"]
    assert queries.speedups(tables["curves"]).empty  # A single point shows no scaling.
    times = queries.training_times(tables)  # without a published table, of one epoch
    assert times["epochs"].tolist() == [1]
    assert times["seconds"].tolist() == pytest.approx(tables["curves"]["epoch_time_s"].tolist())


def test_steps_are_projected_onto_the_study_and_say_so(tables):
    times = queries.training_times(tables)
    projected = at(times, experiment="ntua_steps", batch_per_worker=64, nodes=2)
    curve = at(tables["curves"], experiment="ntua_steps", batch_per_worker=64, nodes=2)
    assert projected["kind"] == "measured step time × steps"
    assert projected["epochs"] == 5
    assert projected["seconds"] == pytest.approx(curve["step_time_s"] * (60_000 // 128) * 5)
    assert projected["low_seconds"] == pytest.approx(curve["epoch_time_low_s"] * 5)


def test_whole_epochs_need_no_projection_and_only_they_have_an_accuracy(tables):
    times = queries.training_times(tables)
    whole = at(times, experiment="ntua_epochs", batch_per_worker=512, nodes=2)
    cell = at(tables["cells"], experiment="ntua_epochs", batch_per_worker=512, nodes=2)
    assert whole["kind"] == "measured"
    assert whole["seconds"] == pytest.approx(cell["train_time_s"])
    ours = queries.accuracies(tables).query("kind == 'measured'")
    assert set(ours["experiment"]) == {"ntua_epochs"}
    assert set(ours["batch_per_worker"]) == {256, 512}
    assert "more workers than cores" in set(times["flags"])
    assert set(ours["flags"]) == {""}  # these workers wait for each other


def test_other_numbers_of_epochs_are_projected_and_have_no_accuracy_beside_the_study(tmp_path):
    extent = make.EPOCHS.model_copy(update={"epochs": 2})
    cell = make.cell(experiment="ntua_epochs", batch=512, extent=extent)
    tables = make.tables_of([make.record(cell)], tmp_path, make.published())
    times = queries.training_times(tables)
    assert at(times, experiment="ntua_epochs")["kind"] == "measured step time × steps"
    assert at(times, experiment="ntua_epochs")["epochs"] == 5
    assert set(queries.accuracies(tables)["kind"]) == {"published"}


def test_every_published_point_stands_beside_ours_with_the_ratio(tables):
    beside = queries.published_and_ours(tables)
    assert len(beside) == len(tables["published"])
    row = at(beside, batch_per_worker=512, nodes=2)
    assert (row["label"], row["accuracy_label"]) == ("measured", "measured")  # not the projection
    assert row["ratio"] == pytest.approx(row["seconds_ours"] / row["seconds_published"])
    assert row["seconds_published"] == 90
    assert at(beside, batch_per_worker=32, nodes=3)["flags"] == "more workers than cores"


def test_all_times_beside_a_published_line_are_of_one_experiment(tables):
    beside = queries.published_and_ours(tables)
    timed = beside["experiment"].str.split(";").str[0]
    assert (timed.groupby(beside["batch_per_worker"]).nunique() == 1).all()
    # Whole epochs cover two node counts, steps three: the experiment with most points is used.
    fewer = tables["curves"].query("not whole_epochs or nodes < 3")
    beside = queries.published_and_ours(tables | {"curves": fewer})
    assert set(beside["experiment"].str.split(";").str[0]) == {"ntua_steps"}


def test_published_models_that_we_did_not_measure_stay_in_the_table_but_not_on_our_charts(tables):
    other = make.published().assign(model="bert_base", dataset="movie_reviews")
    both = tables | {"published": pd.concat([tables["published"], other], ignore_index=True)}
    assert queries.published_and_ours(both).groupby("model")["ratio"].count()["bert_base"] == 0
    assert set(queries.training_times(both)["model"]) == {"fashion_cnn"}

"""The numbers in data/published are complete, checked, and labelled as the README says."""

import pandas as pd
import pytest

from nodewise.data.registry import Entry, find
from nodewise.models.facts import facts
from nodewise.results import published
from nodewise.results.published import points, read, runs
from nodewise.results.studies import FOLDER, names
from nodewise.study.estimate import DATASETS


def test_tables_have_all_rows_and_only_positive_numbers():
    rows = {"ntua/models": 5, "ntua/points": 36, "asu/trainings": 2}
    rows |= {"strategies/trainings": 4, "horovod/trainings": 3}
    files = [f"{name}/{file.stem}" for name in names() for file in (FOLDER / name).glob("*.csv")]
    assert {file: len(read(file)) for file in files} == rows
    for name in rows:
        assert not (read(name).select_dtypes("number") <= 0).any(axis=None)
        assert not read(name).duplicated().any()


def test_models_and_datasets_are_of_the_printed_sizes():
    for row in read("ntua/models").to_dict("records"):
        model, data = facts(row["model"]), find(DATASETS, row["dataset"], Entry)
        assert (model.trainable, model.total) == (row["trainable_weights"], row["total_weights"])
        assert data.train_examples == row["training_examples"]
    # the models of the other studies: of Keras' examples, and a layer of 128 units
    assert facts("mnist_cnn").trainable == 1_199_882
    assert facts("fashion_mlp").trainable == 785 * 128 + 129 * 10


def test_every_training_of_table_2_is_at_a_batch_of_table_1():
    batches = read("ntua/models").set_index(["model", "dataset"])["initial_batch_sizes"].astype(str)
    for key, rows in read("ntua/points").groupby(["model", "dataset"]):
        assert {*rows["batch_per_worker"]} <= {*map(int, batches[key].split(";"))}
        assert not rows.duplicated(["batch_per_worker", "nodes"]).any()


def test_rates_of_other_studies_follow_from_what_they_print():
    rows = runs().set_index(["study", "nodes"])
    asu, horovod = rows.loc[("asu", 2)], rows.loc[("horovod", 4)]
    assert asu["speedup"] == pytest.approx(109.47 / 78.61, 1e-3)
    assert asu["examples_per_s"] == pytest.approx(30 * 60_000 / 78.61, 1e-3)
    assert horovod["training_time_s"] == 24
    assert horovod["examples_per_s"] == pytest.approx(4 * 128 / 0.013)
    assert horovod["speedup"] == pytest.approx(4 * 9 / 13)


def test_a_speed_up_is_against_the_same_model(monkeypatch):
    asu = published.of_studies("trainings").query("study == 'asu'")
    other = asu.assign(model="other", training_time_s=2 * asu["training_time_s"])
    monkeypatch.setattr(published, "of_studies", lambda table: pd.concat([asu, other]))
    assert runs().groupby("nodes")["speedup"].nunique().tolist() == [1, 1]


def test_ntua_is_the_published_table_with_whole_steps_per_epoch():
    assert not points().isna().any().any()
    table = points().set_index(["model", "batch_per_worker", "nodes"])
    # 5519 images in steps of 3 × 256 give 7 whole steps per epoch, for 5 epochs.
    row = table.loc[("densenet121", 256, 3)]
    assert (row["steps"], row["step_time_s"]) == (35, pytest.approx(216 / 35))
    # 90 % of 2,000 reviews in steps of 2 × 32 give 28 whole steps per epoch, for 3 epochs.
    assert table.loc[("bert_base", 32, 2), "steps"] == 84
    assert table.loc[("fashion_cnn", 32, 1), "payload_bytes"] == 4 * facts("fashion_cnn").trainable

"""The numbers in data/published are complete, checked, and labelled as the README says."""

import re
import shutil
from pathlib import Path

import pytest

from mistakes import user_error
from nodewise.results.published import FOLDER, TABLES, ntua, read, runs


@pytest.fixture
def folder(tmp_path):
    for file in FOLDER.glob("*.csv"):
        shutil.copy(file, tmp_path)
    return tmp_path


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_every_file_is_read_and_every_table_has_a_file():
    assert {file.stem for file in FOLDER.glob("*.csv")} == set(TABLES)
    rows = {"ntua_table1": 5, "ntua_table2": 36, "ntua_figure28": 2, "asu_mirrored_mnist": 2}
    rows |= {"fashion_mlp_strategies": 4, "horovod_mnist_gpus": 3}
    assert {name: len(read(name)) for name in TABLES} == rows


def test_rates_of_other_studies_follow_from_what_they_print():
    rows = runs().set_index(["study", "nodes"])
    asu, horovod = rows.loc[("asu", 2)], rows.loc[("horovod", 4)]
    assert asu["speedup"] == pytest.approx(109.47 / 78.61, 1e-3)
    assert asu["examples_per_s"] == pytest.approx(30 * 60_000 / 78.61, 1e-3)
    assert horovod["training_time_s"] == 24
    assert horovod["examples_per_s"] == pytest.approx(4 * 128 / 0.013)
    assert horovod["speedup"] == pytest.approx(4 * 9 / 13)


def test_ntua_is_the_published_table_with_whole_steps_per_epoch():
    assert not ntua().isna().any().any()
    table = ntua().set_index(["model", "batch_per_worker", "nodes"])
    # 5519 images in steps of 3 × 256 give 7 whole steps per epoch, for 5 epochs.
    row = table.loc[("densenet121", 256, 3)]
    assert (row["steps"], row["step_time_s"]) == (35, pytest.approx(216 / 35))
    # 90 % of 2,000 reviews in steps of 2 × 32 give 28 whole steps per epoch, for 3 epochs.
    assert table.loc[("bert_base", 32, 2), "steps"] == 84
    assert table.loc[("fashion_cnn", 32, 1), "payload_bytes"] == 4 * 1_256_150


def test_an_empty_value_is_missing_only_where_it_may_be(folder):
    strategies = read("fashion_mlp_strategies", folder).set_index("strategy")
    assert strategies.loc["single", "test_accuracy"] == 0.8753
    assert strategies["test_accuracy"].isna().sum() == 3
    edit(folder / "ntua_table1.csv", "bert_base,movie_reviews,3", "bert_base,movie_reviews,")
    assert "ntua_table1.csv: " in user_error(read, "ntua_table1", folder)


@pytest.mark.parametrize(
    ("file", "old", "new", "complaint"),
    [
        ("ntua_table2", "64,1,707,", "64,1,-707,", r"ntua_table2.csv:2: training_time_s: "),
        ("ntua_table2", "64,1,707,", "64,1.5,707,", r"ntua_table2.csv: "),
        ("ntua_table2", "training_time_s", "time", r"ntua_table2.csv: .*training_time_s"),
        ("ntua_table2", "64,2,685", "64,1,685", r"ntua_table2.csv:3: appears twice"),
        ("ntua_table2", "64,2,685", "65,2,685", r"ntua_table2.csv:3: .*no such model"),
        ("ntua_table1", "cifar10,5,64,", "cifar100,5,64,", r"no such model, data set and batch"),
    ],
)
def test_a_mistake_is_one_line_that_says_where(folder, file, old, new, complaint):
    edit(folder / f"{file}.csv", old, new)
    assert re.search(complaint, user_error(ntua, folder))


def test_missing_and_binary_files(folder):
    (folder / "horovod_mnist_gpus.csv").unlink()
    assert "horovod_mnist_gpus.csv: " in user_error(read, "horovod_mnist_gpus", folder)
    (folder / "ntua_table1.csv").write_bytes(b"model\n\xff\xfe\n")
    assert "ntua_table1.csv: " in user_error(read, "ntua_table1", folder)

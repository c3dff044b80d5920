"""The numbers in data/published are complete, checked, and labelled as the README says."""

import shutil
from pathlib import Path

import pytest

from nodewise.core.errors import UserError
from nodewise.results.columns import PUBLISHED
from nodewise.results.importers.published import FOLDER, TABLES, ntua, read


@pytest.fixture
def folder(tmp_path):
    for file in FOLDER.glob("*.csv"):
        shutil.copy(file, tmp_path)
    return tmp_path


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")


def time_s(model, batch, nodes):
    rows = ntua().set_index(["model", "batch_per_worker", "nodes"])
    return rows.loc[(model, batch, nodes), "training_time_s"]


def test_every_file_is_read_and_every_table_has_a_file():
    assert {file.stem for file in FOLDER.glob("*.csv")} == set(TABLES)
    rows = {"ntua_table1": 5, "ntua_table2": 36, "ntua_figure28": 2, "asu_mirrored_mnist": 2}
    rows |= {"fashion_mlp_strategies": 4, "horovod_mnist_gpus": 3}
    assert {name: len(read(name)) for name in TABLES} == rows


def test_ntua_is_the_published_table():
    table = ntua()
    assert list(table.columns) == list(PUBLISHED)
    assert len(table) == 36
    assert set(table["kind"]) == {"published"}
    assert not table.isna().any().any()


def test_steps_are_whole_steps_per_epoch():
    table = ntua().set_index(["model", "batch_per_worker", "nodes"])
    # 5519 images in steps of 3 × 256 give 7 whole steps per epoch, for 5 epochs.
    row = table.loc[("densenet121", 256, 3)]
    assert (row["steps"], row["step_time_s"]) == (35, pytest.approx(216 / 35))
    # 90 % of 2,000 reviews in steps of 2 × 32 give 28 whole steps per epoch, for 3 epochs.
    assert table.loc[("bert_base", 32, 2), "steps"] == 84
    assert table.loc[("fashion_cnn", 32, 1), "payload_bytes"] == 4 * 1_256_150


def test_the_batches_of_both_tables_agree_in_order():
    batches = read("ntua_table1")["initial_batch_sizes"].str.split(";").explode().astype(int)
    groups = ntua().drop_duplicates(["model", "batch_per_worker"])
    assert list(groups["batch_per_worker"]) == list(batches)
    assert (ntua()["printed_batch"] == ntua()["batch_per_worker"]).all()


def test_the_corrected_labels_say_what_the_prose_says():
    assert time_s("densenet121", 256, 2) / time_s("densenet121", 256, 3) == pytest.approx(1.7, 0.03)
    assert time_s("densenet121", 256, 1) / time_s("densenet121", 256, 3) == pytest.approx(2, 0.06)
    fallen = 1 - time_s("fashion_cnn", 512, 2) / time_s("fashion_cnn", 32, 2)
    assert fallen == pytest.approx(0.85, abs=0.025)
    for batch in (32, 64, 128):
        assert time_s("fashion_cnn", batch, 1) < time_s("fashion_cnn", batch, 3)
    for batch in (256, 512):
        assert time_s("fashion_cnn", batch, 1) > time_s("fashion_cnn", batch, 2)
    assert time_s("bert_base", 32, 1) / time_s("bert_base", 32, 2) == pytest.approx(2, 0.05)
    assert time_s("bert_base", 32, 1) / time_s("bert_base", 32, 3) == pytest.approx(3, 0.05)


def test_24_rows_are_labelled_with_another_data_set():
    names = (
        ntua()["printed_dataset"].str.lower().str.replace(" ", "_").replace("cifar_10", "cifar10")
    )
    assert (names != ntua()["dataset"]).sum() == 24


def test_an_empty_value_is_none_only_where_it_may_be(folder):
    strategies = read("fashion_mlp_strategies", folder).set_index("strategy")
    assert strategies.loc["single", "test_accuracy"] == 0.8753
    assert strategies["test_accuracy"].isna().sum() == 3
    edit(folder / "ntua_table1.csv", "bert_base,movie_reviews,3", "bert_base,movie_reviews,")
    with pytest.raises(UserError, match=r"ntua_table1.csv:6: epochs: required, but missing"):
        read("ntua_table1", folder)


@pytest.mark.parametrize(
    ("file", "old", "new", "complaint"),
    [
        ("ntua_table2", "64,1,707,", "64,1,-707,", r"ntua_table2.csv:2: training_time_s: "),
        ("ntua_table2", "64,1,707,", "64,1,inf,", r"ntua_table2.csv:2: training_time_s: "),
        ("ntua_table2", "64,1,707,", "64,1.5,707,", r"ntua_table2.csv:2: nodes: "),
        ("ntua_table2", "64,1,707,0.841", "64,1,707,84.1", r"csv:2: training_accuracy: "),
        (
            "ntua_table2",
            "Cifar 10,64\ncifar10_cnn,cifar10,64,3",
            "Cifar 10,64,9\ncifar10_cnn,cifar10,64,3",
            r"csv:3: a surplus column: ",
        ),
        (
            "ntua_table2",
            "64,2,685",
            "64,1,685",
            r"cifar10_cnn at batch 64 on 1 nodes: appears twice",
        ),
        ("ntua_table2", "64,2,685", "65,2,685", r"batch 65 on 2 nodes: .* no such model"),
        ("ntua_table1", "cifar10,5,64,", "cifar100,5,64,", r"no such model, data set and batch"),
        ("ntua_table1", "2396330,2397226", "2397226,2396330", r"must not exceed total_weights"),
        ("ntua_table1", "7089410,109483778,1800", "7089410,109483778,80", r"not one whole step"),
        ("ntua_table1", "16;64;256", "16;;64", r"csv:3: initial_batch_sizes: "),
    ],
)
def test_a_mistake_is_one_line_that_says_where(folder, file, old, new, complaint):
    edit(folder / f"{file}.csv", old, new)
    with pytest.raises(UserError, match=complaint) as caught:
        ntua(folder)
    assert "\n" not in str(caught.value)


def test_a_model_may_be_in_table_1_once(folder):
    path = folder / "ntua_table1.csv"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join([*lines, lines[1]]), encoding="utf-8")
    with pytest.raises(UserError, match="cifar10_cnn appears twice"):
        ntua(folder)


def test_missing_empty_and_binary_files(folder):
    (folder / "horovod_mnist_gpus.csv").unlink()
    with pytest.raises(UserError, match="cannot be read"):
        read("horovod_mnist_gpus", folder)
    (folder / "asu_mirrored_mnist.csv").write_text("strategy,devices\n", encoding="utf-8")
    with pytest.raises(UserError, match="has no rows"):
        read("asu_mirrored_mnist", folder)
    (folder / "ntua_table1.csv").write_bytes(b"model\n\xff\xfe\n")
    with pytest.raises(UserError, match="is not UTF-8 text"):
        read("ntua_table1", folder)
    with pytest.raises(UserError, match="not a published table; there are: ntua_table1"):
        read("../secrets", folder)

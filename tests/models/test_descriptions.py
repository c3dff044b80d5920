"""METADATA and descriptions of models: how they are read; a mistake gives one clear line."""

import pytest

import make_architectures as make
from mistakes import user_error
from nodewise.models.facts import read_facts, read_own, refuse_own
from nodewise.models.registry import read_metadata, registry

TOY = """
import a_package_that_is_not_there
METADATA = {"title": "Toy", "dataset": "mnist"}
"""


def test_a_file_in_the_folder_is_a_model_and_is_not_run(tmp_path, monkeypatch):
    (tmp_path / "toy.py").write_text(TOY)
    monkeypatch.setattr("nodewise.models.registry.MODELS_DIR", tmp_path)
    assert registry.__wrapped__()["toy"].title == "Toy"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "METADATA: title: required"),
        ("METADATA = [1]", "METADATA: "),
        ("METADATA = dict(title='Toy')", "METADATA must be a dictionary of plain values"),
        (TOY.replace('"mnist"', "3"), "METADATA: dataset: 3 is not allowed"),
        (TOY.replace("}", ', "trainable": 10}'), "METADATA: trainable: "),
        ("METADATA = {", ":1: is not Python"),
    ],
)
def test_a_mistake_in_a_model_file_gets_one_line(tmp_path, text, line):
    path = tmp_path / "toy.py"
    path.write_text(text)
    said = user_error(read_metadata, path)
    assert str(path) in said and line in said


def test_a_description_reads_back_and_a_missing_one_is_one_line(tmp_path):
    assert "nodewise describe-model fashion_cnn" in user_error(read_facts, tmp_path, "fashion_cnn")
    described = make.fashion_cnn()
    assert read_facts(make.write([described], tmp_path), "fashion_cnn") == described
    expected = described.training_flops_per_example / (4 * described.trainable)
    assert described.flops_per_payload_byte == pytest.approx(expected)


def test_a_refusal_is_no_description_and_a_damaged_file_is_one_line(tmp_path):
    path = tmp_path / "own.json"
    assert read_own(path) is None
    refuse_own(path, "mine.py:build: the model is not compiled")
    assert read_own(path) is None
    assert "is not compiled" in path.read_text()
    path.write_text("{}")
    said = user_error(read_own, path)
    assert "own.json: " in said and "; remove the file to have the model des" in said

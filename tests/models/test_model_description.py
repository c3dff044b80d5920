"""The schema of a model's description, and how it is read."""

import pytest

import make_architectures as make
from nodewise.core.errors import UserError
from nodewise.models.facts import read_facts, read_own, refuse_own


def test_a_description_reads_back_as_it_was(tmp_path):
    described = make.fashion_cnn()
    assert read_facts(make.write([described], tmp_path), "fashion_cnn") == described


def test_operations_per_byte_are_those_of_training_one_example():
    described = make.fashion_cnn()
    expected = described.training_flops_per_example / (4 * described.trainable)
    assert described.flops_per_payload_byte == pytest.approx(expected)


def test_a_refusal_is_no_description_and_a_damaged_file_is_one_line(tmp_path):
    path = tmp_path / "own.json"
    assert read_own(path) is None
    refuse_own(path, "mine.py:build: the model is not compiled")
    assert read_own(path) is None
    assert "is not compiled" in path.read_text()
    path.write_text("{}")
    with pytest.raises(UserError, match=r"own\.json: .*; remove the file to have the model des"):
        read_own(path)


def test_a_missing_description_is_one_line_with_the_command_that_writes_it(tmp_path):
    with pytest.raises(UserError) as raised:
        read_facts(tmp_path, "fashion_cnn")
    assert "nodewise describe-model fashion_cnn" in str(raised.value)

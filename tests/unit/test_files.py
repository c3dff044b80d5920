"""A file is either whole or not there."""

import json

import pytest

from nodewise.files import atomic, write_json, write_text


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "table.csv"
    write_text(path, "old\n")
    with pytest.raises(RuntimeError), atomic(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old\n"
    assert [file.name for file in tmp_path.iterdir()] == ["table.csv"]


def test_folders_are_made_and_the_mode_is_the_usual_one(tmp_path):
    path = tmp_path / "a" / "b.json"
    write_json(path, {"α": [1, 2.5]})
    (tmp_path / "usual").touch()
    assert path.stat().st_mode == (tmp_path / "usual").stat().st_mode
    assert json.loads(path.read_text()) == {"α": [1, 2.5]}


def test_json_has_no_nan(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "x.json", float("nan"))

"""A file is either whole or absent; errors name the file that was to be written."""

import errno
import json
import os
import subprocess
import sys

import pytest

from nodewise.core.errors import what_to_mend
from nodewise.core.files import atomic, check_writable, write_json, write_text


def names(folder):
    return {file.name for file in folder.iterdir()}


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "table.csv"
    write_text(path, "old\n")
    with pytest.raises(RuntimeError), atomic(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old\n"
    assert names(tmp_path) == {"table.csv"}


def test_json_has_no_nan(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "x.json", float("nan"))


WRITER = """
import sys
from pathlib import Path
from nodewise.core.files import atomic

with atomic(Path(sys.argv[1])) as temporary:
    temporary.write_text("half")
    print("writing", flush=True)
    if sys.stdin.readline() == "end\\n":
        temporary.write_text("whole")
"""


def test_a_killed_writer_leaves_the_old_file_as_it_was(tmp_path):
    path = tmp_path / "record.json"
    write_text(path, "old")
    run = [sys.executable, "-c", WRITER, path]
    with subprocess.Popen(run, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout.readline() == "writing\n"
        writer.kill()
    assert path.read_text() == "old"
    assert list(tmp_path.glob("*.json")) == [path]
    write_text(path, "new")
    assert path.read_text() == "new"


def test_a_full_disk_names_the_file_that_was_to_be_written(tmp_path):
    path = tmp_path / "record.json"
    with pytest.raises(OSError, match=r"record\.json") as raised, atomic(path):
        # like the error of write(), which names no file
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert raised.value.filename == str(path)
    assert names(tmp_path) == set()


def test_a_file_that_is_a_folder_is_named_and_nothing_is_left(tmp_path):
    (tmp_path / "record.json").mkdir()
    with pytest.raises(IsADirectoryError) as raised:
        write_text(tmp_path / "record.json", "")
    assert str(raised.value) == f"[Errno 21] Is a directory: '{tmp_path / 'record.json'}'"
    assert names(tmp_path) == {"record.json"}


def test_whether_a_file_can_be_written_is_known_before_and_leaves_only_its_folder(tmp_path):
    path = tmp_path / "records" / "record.json"
    check_writable(path)
    assert names(path.parent) == set()
    write_json(path, {"α": [1, 2.5]})
    check_writable(path)
    assert json.loads(path.read_text()) == {"α": [1, 2.5]}
    assert names(path.parent) == {"record.json"}
    with pytest.raises(FileExistsError, match=r"record\.json"):
        check_writable(path / "below.json")


def test_a_file_in_place_of_a_folder_is_told_from_a_folder_that_is_there(tmp_path):
    (tmp_path / "file").touch()
    for name, expected in (("file", "is not a folder"), (".", "File exists")):
        with pytest.raises(FileExistsError) as raised:
            (tmp_path / name).mkdir()
        assert expected in what_to_mend(raised.value)

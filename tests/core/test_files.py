"""A file is either whole or absent; errors name the file that was to be written.

A generated folder is replaced as a whole; files that were not generated are never touched.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nodewise.core.errors import UserError
from nodewise.core.files import atomic, check_writable, write_json, write_text
from nodewise.core.folders import replaced, write_files


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


# --- folders ---


def write(folder, files):
    with replaced(folder) as new:
        write_files(new, files)


def files_of(folder):
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".nodewise"
    }


def test_the_folder_has_the_new_files_and_none_of_the_old(tmp_path):
    write(tmp_path / "out", {"old.md": "one", "kept/c.md": b"two"})
    assert files_of(tmp_path / "out") == {"old.md": "one", "kept/c.md": "two"}
    write(tmp_path / "out", {"kept/c.md": "three"})
    assert files_of(tmp_path / "out") == {"kept/c.md": "three"}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_failed_run_leaves_the_old_folder_and_nothing_else(tmp_path):
    write(tmp_path / "out", {"a.md": "old"})
    with pytest.raises(KeyboardInterrupt), replaced(tmp_path / "out") as new:
        write_files(new, {"a.md": "new"})
        raise KeyboardInterrupt
    assert files_of(tmp_path / "out") == {"a.md": "old"}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_two_runs_at_once_do_not_disturb_each_other(tmp_path):
    with replaced(tmp_path / "out") as new:
        write_files(new, {"a.md": "first"})
        write(tmp_path / "out", {"b.md": "second"})
        assert files_of(tmp_path / "out") == {"b.md": "second"}
        write_files(new, {"c.md": "first"})
    assert files_of(tmp_path / "out") == {"a.md": "first", "c.md": "first"}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_the_current_folder_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"\.: cannot be replaced"):
        write(Path(), {"a.md": ""})


def test_a_folder_with_files_of_others_is_refused(tmp_path):
    (tmp_path / "mine.txt").write_text("precious")
    with pytest.raises(UserError, match="holds files that nodewise did not write"):
        write(tmp_path, {"a.md": ""})
    assert files_of(tmp_path) == {"mine.txt": "precious"}


def test_an_error_names_the_folder_and_not_the_one_aside(tmp_path):
    with pytest.raises(OSError, match="No space left") as told, replaced(tmp_path / "out") as new:
        raise OSError(28, "No space left on device", str(new / "a.md"))
    assert told.value.filename == str(tmp_path / "out/a.md")


@pytest.mark.parametrize("name", ["/etc/passwd", "../b.md", "a/../../b.md"])
def test_no_path_leaves_the_folder(tmp_path, name):
    with pytest.raises(ValueError, match="inside the folder"):
        write_files(tmp_path / "pages", {name: "x"})
    assert not [*tmp_path.iterdir()]

"""A generated folder is brought up to date: nothing rewritten in vain, nothing foreign touched."""

import pytest

from nodewise import outputs
from nodewise.outputs import unchanged, update_folder


def stamps(folder):
    return {p: p.stat().st_mtime_ns for p in folder.rglob("*") if p.is_file() and p.name[0] != "."}


def test_only_what_changed_is_written(tmp_path):
    assert update_folder(tmp_path, {"a.md": "one", "b/c.md": b"two"}) == 2
    before = stamps(tmp_path)
    assert update_folder(tmp_path, {"a.md": "one", "b/c.md": "two"}) == 0
    assert stamps(tmp_path) == before
    assert update_folder(tmp_path, {"a.md": "other", "b/c.md": "two"}) == 1
    assert (tmp_path / "a.md").read_text() == "other"


def test_what_is_no_longer_made_is_removed_and_foreign_files_stay(tmp_path):
    (tmp_path / "mine.txt").write_text("not generated")
    update_folder(tmp_path, {"old.md": "", "kept.md": ""})
    update_folder(tmp_path, {"kept.md": ""})
    assert sorted(path.name for path in stamps(tmp_path)) == ["kept.md", "mine.txt"]


@pytest.mark.parametrize("name", ["../out.md", "/etc/out.md", "a/../../out.md", "a//b.md"])
def test_no_path_leaves_the_folder(tmp_path, name):
    with pytest.raises(ValueError, match="inside the folder"):
        update_folder(tmp_path / "in", {name: "x"})
    assert not (tmp_path / "out.md").exists()


def test_an_altered_list_of_files_removes_nothing_outside(tmp_path):
    victim = tmp_path / "victim.txt"
    victim.write_text("precious")
    update_folder(tmp_path / "in", {"a.md": ""})
    (tmp_path / "in" / ".written").write_text("a.md\n../victim.txt\n")
    with pytest.raises(ValueError, match="inside the folder"):
        update_folder(tmp_path / "in", {"a.md": ""})
    assert victim.read_text() == "precious"


def test_what_a_killed_run_left_is_removed_by_the_next(tmp_path, monkeypatch):
    def write_one_and_die(path, content):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(outputs, "_write", write_one_and_die)
        with pytest.raises(KeyboardInterrupt):
            update_folder(tmp_path, {"orphan.md": b"x"})
    assert (tmp_path / "orphan.md").is_file()
    update_folder(tmp_path, {"a.md": ""})
    assert not (tmp_path / "orphan.md").exists()


def test_what_is_made_of_the_same_is_left_alone_and_what_is_gone_is_not_the_same(tmp_path):
    made_of = {"a.md": "1", "b.md": "2"}
    assert unchanged(tmp_path, made_of) == set()
    update_folder(tmp_path, {"a.md": "one", "b.md": "two"}, made_of)
    assert unchanged(tmp_path, {"a.md": "1", "b.md": "3", "c.md": "1"}) == {"a.md"}
    assert update_folder(tmp_path, {"a.md": None, "b.md": "other"}, {"a.md": "1", "b.md": "3"}) == 1
    assert (tmp_path / "a.md").read_text() == "one"
    (tmp_path / "a.md").unlink()
    assert unchanged(tmp_path, {"a.md": "1", "b.md": "3"}) == {"b.md"}


def test_after_a_run_that_was_killed_nothing_counts_as_unchanged(tmp_path, monkeypatch):
    update_folder(tmp_path, {"a.md": "one"}, {"a.md": "1"})

    def die(path, content):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(outputs, "_write", die)
        with pytest.raises(KeyboardInterrupt):
            update_folder(tmp_path, {"a.md": "two"}, {"a.md": "2"})
    assert unchanged(tmp_path, {"a.md": "1"}) == unchanged(tmp_path, {"a.md": "2"}) == set()

"""Horovod's build: what is there is not built again, and what is missing is said in one line."""

import json

import pytest

from nodewise import horovod_build


def built(folder):
    (folder / "site" / "horovod").mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps(horovod_build._wanted()))


def test_what_is_built_is_not_built_again(tmp_path, monkeypatch):
    built(tmp_path)
    monkeypatch.setenv("PATH", "")  # nothing could be compiled
    assert horovod_build.build(tmp_path) is None


def test_without_a_compiler_the_manifest_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    reason = horovod_build.build(tmp_path)
    assert reason is not None
    assert "g++" in reason
    assert "\n" not in reason
    assert horovod_build.missing(tmp_path) == reason


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"tensorflow": "1.0"}', "\x00"])
def test_another_manifest_is_no_horovod(tmp_path, text):
    built(tmp_path)
    (tmp_path / "manifest.json").write_text(text)
    assert horovod_build.missing(tmp_path)


def test_a_manifest_without_its_files_is_no_horovod(tmp_path):
    (tmp_path / "manifest.json").write_text(json.dumps(horovod_build._wanted()))
    assert horovod_build.missing(tmp_path)


@pytest.mark.parametrize("name", horovod_build._CHANGES)
def test_another_source_is_refused(tmp_path, name):
    source = tmp_path / "source"
    for file, (before, times, _) in horovod_build._CHANGES.items():
        (source / file).parent.mkdir(parents=True, exist_ok=True)
        (source / file).write_text(before * times)
    (source / name).write_text("other")
    with pytest.raises(horovod_build.UserError, match=name):
        horovod_build._change(source)

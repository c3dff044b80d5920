"""Horovod is not built again if it is there; one line says what a build lacks."""

import json
import os
import socket
import subprocess
import sys

import pytest

from nodewise.strategies.horovod import build as horovod_build


def built(folder):
    (folder / "site" / "horovod").mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps(horovod_build.wanted()))


def test_what_is_built_is_not_built_again(tmp_path, monkeypatch):
    built(tmp_path)
    monkeypatch.setenv("PATH", "")  # Nothing could be compiled now.
    assert horovod_build.build(tmp_path) is None


def test_without_a_compiler_the_manifest_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    reason = horovod_build.build(tmp_path)
    assert reason is not None and "g++" in reason and "\n" not in reason
    assert horovod_build.missing(tmp_path) == reason


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"tensorflow": "1.0"}', "\x00"])
def test_another_manifest_is_no_horovod(tmp_path, text):
    built(tmp_path)
    (tmp_path / "manifest.json").write_text(text)
    assert horovod_build.missing(tmp_path)


OFFLINE = {"PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": "", "PIP_EXTRA_INDEX_URL": ""}


def test_without_a_network_the_manifest_says_so_and_the_log_tells_more(tmp_path, monkeypatch):
    for name, value in (OFFLINE | {"PIP_NO_INDEX": "1"}).items():
        monkeypatch.setenv(name, value)
    log = tmp_path / "build.log"
    reason = horovod_build.build(tmp_path)
    assert reason == f"Horovod: fetching the build tools failed; see {log}"
    assert horovod_build.missing(tmp_path) == reason
    assert "setuptools" in log.read_text()
    assert {path.name for path in tmp_path.iterdir()} == {".lock", "build.log", "manifest.json"}


@pytest.mark.parametrize(("ending", "left"), [("terminate", set()), ("kill", {".build"})])
def test_a_build_that_is_ended_leaves_nothing_running(tmp_path, ending, left):
    with socket.create_server(("127.0.0.1", 0)) as index:  # It never answers.
        address = f"http://127.0.0.1:{index.getsockname()[1]}/"
        command = [sys.executable, "-m", "nodewise", "prepare", "horovod"]
        environment = os.environ | OFFLINE | {"PIP_INDEX_URL": address}
        with subprocess.Popen(command, env=environment, cwd=tmp_path) as building:
            index.settimeout(30)
            pip, _ = index.accept()
            getattr(building, ending)()
        pip.settimeout(10)
        while pip.recv(4096):  # Read until pip has ended.
            pass
        pip.close()
    # A killed build leaves this folder; the next build removes it.
    folder = tmp_path / horovod_build.FOLDER
    assert {path.name for path in folder.iterdir()} == {".lock", "build.log"} | left
    assert horovod_build.missing(folder) == "Horovod is not built"

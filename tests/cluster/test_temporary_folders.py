"""Temporary folders of killed processes are removed by the next run, those of others are not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nodewise.cluster import leftovers

CLAIM = """
from nodewise.cluster import leftovers
folder = leftovers.temporary_folder()
print(folder.name, flush=True)
input()
"""


@pytest.fixture
def claimed(tmp_path, monkeypatch):
    """Start a process that claims a folder in tmp_path; yield the process and the folder."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    pipe, environment = subprocess.PIPE, os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", CLAIM], stdin=pipe, stdout=pipe, text=True, env=environment
    ) as owner:
        yield owner, Path(owner.stdout.readline().strip())
        owner.kill()


def test_only_a_folder_whose_process_was_killed_is_removed(tmp_path, claimed):
    owner, folder = claimed
    (tmp_path / "pymp-other").mkdir()  # of another program
    leftovers.remove_unclaimed()
    assert folder.is_dir()
    owner.kill()
    owner.wait()
    leftovers.remove_unclaimed()
    assert [path.name for path in tmp_path.iterdir()] == ["pymp-other"]

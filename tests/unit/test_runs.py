"""A killed run of the workflow locks nobody out; one that is alive does."""

import subprocess
import sys

import pytest

from nodewise import runs

RUN = """
import sys
from pathlib import Path
from nodewise import runs

alive = runs.enter(Path(sys.argv[1]))
print("alive", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "locks").mkdir()
    return tmp_path


def start(folder):
    run = subprocess.Popen(
        [sys.executable, "-c", RUN, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert run.stdout.readline() == b"alive\n"
    return run


def kill(run):
    run.kill()
    run.communicate(timeout=30)


def lock(folder):
    path = folder / "locks" / "0.output.lock"
    path.write_text("build/site/index.html\n")
    return path


def test_the_locks_of_a_killed_run_are_removed(folder):
    run = start(folder)
    locked = lock(folder)
    kill(run)
    runs.enter(folder).close()
    assert not locked.exists()


def test_the_locks_of_a_live_run_stay_whoever_came_and_went_meanwhile(folder):
    first = start(folder)
    locked = lock(folder)
    second = start(folder)
    kill(start(folder))
    runs.enter(folder).close()
    assert locked.exists()
    kill(first)
    runs.enter(folder).close()
    assert locked.exists()  # the second may hold them now
    kill(second)
    runs.enter(folder).close()
    assert not locked.exists()


def test_a_first_run_makes_the_folder(tmp_path):
    runs.enter(tmp_path / ".snakemake").close()
    assert (tmp_path / ".snakemake").is_dir()

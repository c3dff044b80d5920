"""A killed run of the workflow locks nobody out, and takes its jobs along."""

import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from snakemake.io import _IOFile

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


JOB = """
import time
from nodewise import runs

runs.end_with_workflow()
print("working", flush=True)
time.sleep(60)
"""
WORKFLOW = """
import subprocess, sys
from nodewise import runs

if sys.argv[2:]:
    runs.take_jobs_along()
subprocess.run([sys.executable, "-c", sys.argv[1]])
"""


def start_workflow(*arguments):
    command = [sys.executable, "-c", WORKFLOW, JOB, *arguments]
    run = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert run.stdout.readline() == b"working\n"
    (job,) = psutil.Process(run.pid).children()
    return run, job


def test_a_job_ends_with_the_workflow_that_takes_it_along():
    run, job = start_workflow("along")
    run.kill()
    run.communicate(timeout=10)  # the job held its output open
    deadline = time.monotonic() + 10  # its files are closed a little before it has ended
    with suppress(psutil.NoSuchProcess):
        while job.status() != psutil.STATUS_ZOMBIE:  # whoever inherited it may not ask for its end
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_command_that_no_workflow_started_goes_on():
    run, job = start_workflow()
    run.kill()
    run.wait()
    with pytest.raises(psutil.TimeoutExpired):
        job.wait(0.5)
    job.kill()
    run.communicate(timeout=10)


def test_a_job_whose_workflow_is_gone_already_does_not_begin(monkeypatch):
    monkeypatch.setenv(runs._STARTED_BY, "1")
    with pytest.raises(SystemExit, match="is gone"):
        runs.end_with_workflow()


def test_an_input_is_read_once_and_again_when_it_has_changed(tmp_path, monkeypatch):
    read = []

    async def checksum(file, threshold):
        read.append(Path(file).read_text())
        return f"{read[-1]}, {threshold}"

    monkeypatch.setattr(_IOFile, "checksum", checksum)
    runs.read_inputs_once()
    path = tmp_path / "input"
    for content in ("one", "one", "longer"):
        if not path.exists() or path.read_text() != content:
            path.write_text(content)
        assert at_once(_IOFile.checksum(str(path), 1000)) == f"{content}, 1000"
    assert read == ["one", "longer"]
    with pytest.raises(FileNotFoundError):  # what Snakemake makes of it is left to Snakemake
        at_once(_IOFile.checksum(str(tmp_path / "none"), 1000))


def at_once(coroutine):
    """Return the result of a coroutine that waits for nothing; a browser's loop may be running."""
    with pytest.raises(StopIteration) as done:
        coroutine.send(None)
    return done.value.value

"""Two studies never measure at the same time; temporary folders of killed ones are removed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

import projects
from nodewise.cluster import leftovers
from traces import runs

HOLD = """
import os, sys, time
from nodewise.cluster import lock
lock._ADDRESS = "\\0" + sys.argv[1]  # not that of the cells of other tests
lock._TOLD_EVERY_S = 0.2
with lock.exclusive_machine() as waited:
    print(f"mine after {waited:.1f}", flush=True)
    if "fork" in sys.argv and (child := os.fork()):
        print(child, flush=True)
        os._exit(0)
    time.sleep(60)
"""
COMMAND = [sys.executable, "-c", HOLD, f"{__name__} {os.getpid()}"]
WAITING = "another cell is being measured on this machine; waiting for it ("


def start(*arguments, command=COMMAND):
    return projects.start(Path.cwd(), *command, *arguments)


def waited(process):
    """Return how many seconds a process waited, by its own words, once it has the machine."""
    said = next(line for line in process.stdout if not line.startswith(WAITING))
    return float(said.removeprefix("mine after "))


def test_workers_that_outlive_their_launcher_still_hold_the_machine():
    with start("fork") as first:
        assert first.stdout.readline() == "mine after 0.0\n"
        worker = int(first.stdout.readline())
        first.wait()
        with start() as second:
            assert second.stdout.readline() == f"{WAITING}0 s so far)\n"
            time.sleep(0.5)
            assert second.stdout.readline().startswith(WAITING)  # it goes on to say so
            os.kill(worker, signal.SIGKILL)
            assert waited(second) >= 0.4
            second.kill()


def test_one_that_waits_ends_with_its_parent():
    """A waiting process whose parent is gone ends: nobody needs its record any more."""
    parent_code = f"import subprocess; subprocess.Popen({COMMAND!r}).wait()"
    with start() as holder:
        assert holder.stdout.readline() == "mine after 0.0\n"
        with start(command=[sys.executable, "-c", parent_code]) as parent:
            assert parent.stdout.readline().startswith(WAITING)
            (waiter,) = psutil.Process(parent.pid).children()
            parent.kill()
        psutil.wait_procs([waiter], 30)
        assert not runs(waiter.pid)
        holder.kill()


def test_a_fresh_process_and_the_one_that_started_it_end_with_their_parent():
    nap = "import time; print(flush=True); time.sleep(60)"
    code = f"from nodewise.measure.fresh_process import run_fresh; run_fresh(exec, {nap!r})"
    parent_code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {code!r}])"
    with start(command=[sys.executable, "-c", parent_code]) as parent:
        assert parent.stdout.readline() == "\n"
        family = psutil.Process(parent.pid).children(recursive=True)
        parent.kill()
        assert not psutil.wait_procs(family, 30)[1]


def test_a_fresh_process_removes_its_temporary_folder():
    code = "from nodewise.measure.fresh_process import run_fresh; print(run_fresh(get_temp_dir))"
    code = f"from multiprocessing.util import get_temp_dir; {code}"
    assert not any(Path(projects.python("-c", code).strip()).exists() for _ in range(3))


CLAIM = """
from nodewise.cluster import leftovers
folder = leftovers.temporary_folder()
print(folder.name, flush=True)
input()
"""


def test_only_a_folder_whose_process_was_killed_is_removed(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    pipe, environment = subprocess.PIPE, os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", CLAIM], stdin=pipe, stdout=pipe, text=True, env=environment
    ) as owner:
        folder = Path(owner.stdout.readline().strip())
        (tmp_path / "pymp-other").mkdir()  # of another program
        leftovers.remove_unclaimed()
        assert folder.is_dir()
        owner.kill()
    leftovers.remove_unclaimed()
    assert [path.name for path in tmp_path.iterdir()] == ["pymp-other"]

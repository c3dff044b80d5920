"""Two studies on one machine never measure at the same time."""

import os
import signal
import subprocess
import sys
import time

import psutil

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


def start(*arguments):
    return subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


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
        with subprocess.Popen(
            [sys.executable, "-c", parent_code],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as parent:
            assert parent.stdout.readline().startswith(WAITING)
            (waiter,) = psutil.Process(parent.pid).children()
            parent.kill()
        psutil.wait_procs([waiter], 30)
        assert not runs(waiter.pid)
        holder.kill()

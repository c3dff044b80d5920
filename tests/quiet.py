"""Measure while the machine is quiet: other programs may use it now and then."""

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from nodewise.cluster import cgroup

ATTEMPTS = 4
WAIT_S = 20  # for a quiet machine, before each attempt
_QUIET = 0.95  # of each core
_SPIN = """
import time
started, cpu = time.perf_counter(), time.process_time()
while time.perf_counter() - started < 0.4:
    pass
print((time.process_time() - cpu) / (time.perf_counter() - started))
"""

Result = TypeVar("Result")


class BusyError(Exception):
    """Other programs kept the tested processes from the cores; the message says how."""


def when_quiet(measure: Callable[[], Result]) -> Result:
    """Call `measure` when the machine is quiet, and again as long as it raises BusyError.

    If the machine is never quiet, what the caller tests cannot be judged: the test is skipped.

    Raises:
        BusyError: every attempt raised it, although the machine is quiet.
    """
    for _ in range(ATTEMPTS):
        _wait_until_quiet()
        try:
            return measure()
        except BusyError as error:
            busy = error
    if not _is_quiet():
        pytest.skip(f"other programs use this machine: {busy}")
    raise busy


def with_free_cores(seen: dict[str, Any]) -> dict[str, Any]:
    """Return the observations of `node_job.py share`.

    Raises:
        BusyError: unlimited nodes, one for each core, got less than their core.
    """
    free = [node["free"] for node in seen["nodes"]]
    if min(free) < _QUIET * min(1, cgroup.cores() / len(free)):
        raise BusyError(f"unlimited nodes get {free} of a core")
    return seen


def _wait_until_quiet() -> None:
    """Wait until processes that only compute get all cores, but at most WAIT_S seconds."""
    deadline = time.monotonic() + WAIT_S
    while not _is_quiet() and time.monotonic() < deadline:
        time.sleep(0.5)


def _is_quiet() -> bool:
    """Return whether processes that only compute, one for each core, get all of their core."""
    command = [sys.executable, "-I", "-c", _SPIN]
    cores = range(cgroup.whole_cores())
    spinning = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in cores]
    return min(float(process.communicate()[0]) for process in spinning) >= _QUIET

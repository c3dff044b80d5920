"""Observe a cell from outside: find its workers, and check that it leaves nothing behind."""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from nodewise.cluster import cgroup
from nodewise.measure.quiet_machine import reference_us

GONE_WITHIN_S = 30
_REFERENCE_S = 0.0064  # reference step of the idle core on which bounds of CPU time were set


_REASON = ""  # why there are no emulated nodes
try:
    cgroup.find_base()
except OSError as error:
    _REASON = str(error)
# in continuous integration, root can create control groups, so a skip would hide a fault
_MUST_RUN = "CI" in os.environ and os.getuid() == 0
needs_emulated_nodes = pytest.mark.skipif(bool(_REASON) and not _MUST_RUN, reason=_REASON)


def slower() -> float:
    """Return how many times slower this core is than the one on which bounds of CPU time were set.

    The result is at least 1: on a faster core, bounds stay as they are.
    """
    return max(1.0, reference_us() / 1e6 / _REFERENCE_S)


def wait_until(
    true: Callable[[], object], within_s: float = 60, run: "subprocess.Popen[str] | None" = None
) -> None:
    """Wait until `true()` holds; fail if that takes too long or the command `run` has ended."""
    deadline = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline, f"not within {within_s:g} s"
        assert run is None or run.poll() is None
        time.sleep(0.05)


def runs(pid: int) -> bool:
    """Return whether a process is running. Zombies, which wait for their parent, are not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def processes(marker: str) -> list[psutil.Process]:
    """Return the processes, except this one, with `marker` in their command or environment."""
    found = []
    for process in psutil.process_iter():
        folder = Path("/proc", str(process.pid))
        try:
            told = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
        except OSError:  # it has ended, or we may not read it
            continue
        if marker.encode() in told and process.pid != os.getpid():
            found.append(process)
    return found


def traces(marker: str) -> dict[str, set[str]]:
    """Return the names of everything that a cell could leave behind, by kind.

    Processes are those with `marker`; namespaces and control groups are those of these processes,
    of processes that have died, and of mounts. Network links, sysctls and shared memory are those
    of the whole machine.
    """
    ours = processes(marker)
    pids = {process.pid for process in ours}
    namespaces = {_network(pid) for pid in pids} - {_network(os.getpid()), ""}
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    tree, groups = cgroup.find_hierarchy(), set()
    for folder in (one for base in tree.groups for one in base.glob("nodewise-*")) if tree else ():
        owner = int(folder.name.split("-")[1])
        if owner in pids or not runs(owner):
            groups.add(folder.name)
    return {
        "processes": {f"{process.pid}" for process in ours},
        "namespaces": namespaces | {line for line in mounts if " nsfs " in line},
        "links": {link.name for link in Path("/sys/class/net").iterdir()},
        "groups": groups,
        "sysctls": set(_sysctls()),
        "shared memory": {file.name for file in Path("/dev/shm").glob("mpich_*")},  # noqa: S108
    }


def assert_gone(before: dict[str, set[str]], marker: str) -> None:
    """Wait until nothing is left that was not there `before`; fail after `GONE_WITHIN_S` seconds.

    What killed tests left before may be gone: a cell removes it when it starts.
    """
    deadline = time.monotonic() + GONE_WITHIN_S
    while True:
        left = {kind: now - before[kind] for kind, now in traces(marker).items()}
        if not any(left.values()):
            return
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


def _network(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/net").readlink())
    except OSError:
        return ""


def _sysctls() -> list[str]:
    lines = []
    for path in Path("/proc/sys/net").rglob("*"):
        if path.is_file() and path.name != "nf_conntrack_count":  # a state, not a setting
            try:
                lines.append(f"{path}: {path.read_text()}")
            except OSError:  # write-only
                continue
    return lines

"""Observe a cell from outside: its workers, what it leaves, and whether it may be emulated here."""

import os
import time
from pathlib import Path

import psutil
import pytest

from nodewise.cluster import cgroup
from nodewise.study.estimate import Machine

GONE_WITHIN_S = 10
# reference step in s, at rest, of the core for which limits of CPU time were set
_REFERENCE_S = 0.0064
_COUNTS = {"nf_conntrack_count"}  # a counter of the kernel, not a setting


def _why_not() -> str | None:
    try:
        cgroup.find_base()
    except OSError as error:
        return str(error)
    return None


_REASON = _why_not()
# Root may create cgroups wherever continuous integration runs; skipping would hide a fault.
_MUST_RUN = "CI" in os.environ and os.getuid() == 0
needs_emulated_nodes = pytest.mark.skipif(
    _REASON is not None and not _MUST_RUN, reason=str(_REASON)
)


def slower() -> float:
    """Return how many times slower this core is than the one for which limits of CPU time were set.

    The result is at least 1: faster cores have the same limits.
    """
    return max(1.0, Machine.here().reference_s / _REFERENCE_S)


def runs(pid: int) -> bool:
    """Return whether a process runs; zombies do not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def processes(marker: str) -> list[psutil.Process]:
    """Return the processes whose command or environment contains `marker`."""
    found = []
    for process in psutil.process_iter():
        folder = Path("/proc", str(process.pid))
        try:
            told = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
        except OSError:  # The process has just ended, or belongs to another user.
            continue
        if marker.encode() in told and process.pid != os.getpid():
            found.append(process)
    return found


def workers_in_timed_steps(marker: str, nodes: int, within_s: float) -> list[psutil.Process]:
    """Wait until emulated nodes are throttled and train; return their workers, by rank."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        time.sleep(0.2)
        ours = {process.pid for process in processes(marker)}
        for folder in cgroup.find_base().glob("nodewise-*"):
            if int(folder.name.split("-")[1]) in ours and _throttled(folder / "node~0"):
                time.sleep(1)  # The warm-up is one step.
                return [
                    psutil.Process(int((folder / f"node~{rank}/cgroup.procs").read_text()))
                    for rank in range(nodes)
                ]
    raise AssertionError("no cell was held to its share")


def _throttled(group: Path) -> bool:
    try:
        if (group / "cpu.max").exists():
            return not (group / "cpu.max").read_text().startswith("max")
        return int((group / "cpu.cfs_quota_us").read_text()) > 0
    except OSError:  # The group has been removed meanwhile.
        return False


def traces(marker: str) -> dict[str, set[str]]:
    """Return the current traces of processes with `marker`, by kind.

    They include cgroups whose launchers have ended, and the network interfaces, network settings
    and MPI's shared memory of the whole machine.
    """
    ours = processes(marker)
    pids = {process.pid for process in ours}
    namespaces = {_network(pid) for pid in pids} - {_network(os.getpid()), ""}
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    groups = set()
    for folder in cgroup.find_base().glob("nodewise-*"):
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
    """Wait until the traces are those of `before`, nothing more and nothing less."""
    deadline = time.monotonic() + GONE_WITHIN_S
    while (now := traces(marker)) != before:
        left = {kind: now[kind] ^ before[kind] for kind in now if now[kind] != before[kind]}
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
        if path.is_file() and path.name not in _COUNTS:
            try:
                lines.append(f"{path}: {path.read_text()}")
            except OSError:  # It can only be written.
                continue
    return lines

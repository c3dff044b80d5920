"""CPU quotas by cgroup, version 1 or 2, and the certainty that none of ours stays behind.

A cell's groups are one folder, `nodewise-<pid>-<start>`, named after the launcher that owns it,
with one folder a node inside. A reaper process removes it when the launcher is gone, however that
went; `remove_stale` does so at the next start if the reaper was killed as well.
"""

import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

# A longer period lets short steps run unthrottled; one near the scheduler's tick falls short.
PERIOD_US = 10_000
_NAME = re.compile(r"nodewise-(\d+)-(\d+)")
_REMOVE_WITHIN_S = 8.0


class CpuGroups:
    """The CPU groups of one cell: `nodes` folders below one that carries the owner's name."""

    def __init__(self, base: Path, nodes: int) -> None:
        self._version2 = (base / "cgroup.controllers").exists()
        self.folder = base / f"nodewise-{os.getpid()}-{_start_ticks(os.getpid())}"
        self._nodes = [self.folder / f"node~{rank}" for rank in range(nodes)]

    def make(self) -> None:
        """Make the folders.

        Raises:
            OSError: this process may not.
        """
        self.folder.mkdir()
        if self._version2:
            (self.folder / "cgroup.subtree_control").write_text("+cpu")
        for node in self._nodes:
            node.mkdir()

    def put(self, rank: int, pid: int) -> None:
        """Move a process, and what it will fork, into the group of node `rank`."""
        (self._nodes[rank] / "cgroup.procs").write_text(str(pid))

    def limit(self, rank: int, cpu: float | None) -> None:
        """Give node `rank` the share `cpu` of one core from now on; None lifts the limit."""
        node = self._nodes[rank]
        if self._version2:
            quota = "max" if cpu is None else str(round(cpu * PERIOD_US))
            (node / "cpu.max").write_text(f"{quota} {PERIOD_US}")
        else:
            (node / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            quota = "-1" if cpu is None else str(round(cpu * PERIOD_US))
            (node / "cpu.cfs_quota_us").write_text(quota)

    def remove(self) -> None:
        """End what is left in the groups and remove their folders, if they are still there."""
        _remove(self.folder)


def find_base() -> Path:
    """Return the folder in which this process may make CPU groups.

    Raises:
        OSError: there is none; the text says what would permit it.
    """
    tried = []
    for base in _candidates():
        probe = base / f"nodewise-{os.getpid()}-{_start_ticks(os.getpid())}"
        try:
            probe.mkdir()
        except OSError as error:
            tried.append(f"{base}: {error.strerror}")
            continue
        has_quota = any((probe / name).exists() for name in ("cpu.max", "cpu.cfs_quota_us"))
        probe.rmdir()
        if has_quota:
            return base
        tried.append(f"{base}: no CPU controller")
    raise OSError(f"no CPU cgroup may be made here ({'; '.join(tried) or 'none is mounted'})")


def remove_stale(base: Path) -> None:
    """Remove the groups of launchers that no longer run; nobody else's."""
    for folder in base.glob("nodewise-*"):
        found = _NAME.fullmatch(folder.name)
        if found and _start_ticks(int(found[1])) != int(found[2]):
            _remove(folder)


@contextmanager
def made(groups: CpuGroups) -> Iterator[None]:
    """Make `groups` for the block; a reaper removes them should this process be killed in it."""
    reading, writing = os.pipe()
    reaper = os.fork()
    if reaper == 0:
        os.setsid()  # a signal to the launcher's group is not for the reaper
        os.close(writing)
        os.read(reading, 1)  # returns when every holder of the other end is gone
        _remove(groups.folder)
        os._exit(0)
    os.close(reading)
    try:
        groups.make()
        yield
    finally:
        groups.remove()
        os.close(writing)
        os.kill(reaper, signal.SIGKILL)
        os.waitpid(reaper, 0)


def _candidates() -> Iterator[Path]:
    """Yield this process's own CPU group, then its parents, as far up as the mount goes."""
    mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for fields in mounts:
            kind, options = fields[fields.index("-") + 1], fields[-1].split(",")
            version2 = kind == "cgroup2" and controllers == ""
            version1 = kind == "cgroup" and "cpu" in controllers.split(",") and "cpu" in options
            if version1 or version2:
                mount = Path(fields[4])
                own = mount / path.lstrip("/")
                # in version 2 a group that has processes cannot have groups with controllers
                yield from (own, *(p for p in own.parents if p.is_relative_to(mount)))


def _start_ticks(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; with its pid that is unique."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return int(stat.rpartition(")")[2].split()[19])


def _remove(folder: Path) -> None:
    deadline = time.monotonic() + _REMOVE_WITHIN_S
    while folder.exists() and time.monotonic() < deadline:
        for group in (*folder.glob("node~*"), folder):
            with suppress(OSError):
                for pid in (group / "cgroup.procs").read_text().split():
                    with suppress(psutil.NoSuchProcess):
                        psutil.Process(int(pid)).kill()
                group.rmdir()
        time.sleep(0.02)

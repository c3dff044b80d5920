"""Limit CPU time with cgroups, version 1 or 2, and remove the groups reliably.

The groups of a cell are one folder, named after the pid of the launcher, with a subfolder for each
node. If the launcher is killed, its guard removes the folder. If the guard was killed as well, the
next run does.

Users other than root need version 2 and a delegated group above the launcher's own: who moves a
process must own the nearest common ancestor of its old and its new group. A group with processes
cannot enable controllers for its children. So the groups of a cell are siblings of the launcher's
own group, below a parent that has the CPU controller enabled.
"""

import math
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from nodewise.cluster.child import error_in_child

# With a longer period, short steps run unthrottled. With a period near the scheduler's tick, nodes
# get less than their share.
PERIOD_US = 10_000
_MIN_QUOTA_US = 1_000  # the kernel's minimum; a smaller share gets a longer period
_ROOT, _GROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
_REMOVE_WITHIN_S = 8.0


@dataclass(frozen=True)
class Hierarchy:
    """A mounted cgroup hierarchy that limits CPU time, and this process's own group in it."""

    version: int
    mount: Path
    own: Path

    @property
    def groups(self) -> list[Path]:
        """This process's own group and all groups above it."""
        return [one for one in (self.own, *self.own.parents) if one.is_relative_to(self.mount)]


class CpuGroups:
    """The CPU groups of one cell: one for each node, below one folder."""

    def __init__(self, base: Path, nodes: int) -> None:
        self._version2 = (base / "cgroup.controllers").exists()
        self.folder = base / f"nodewise-{os.getpid()}"
        self._nodes = [self.folder / f"node~{rank}" for rank in range(nodes)]

    @contextmanager
    def held(self) -> Iterator[None]:
        """Create the groups for the block; kill the processes left in them at its end.

        Raises:
            OSError: this process is not allowed to.
        """
        self.folder.mkdir()
        try:
            if self._version2:
                (self.folder / "cgroup.subtree_control").write_text("+cpu")
            for node in self._nodes:
                node.mkdir()
            yield
        finally:
            _remove(self.folder)

    def put(self, rank: int, pid: int) -> None:
        """Move a process into the group of node `rank`. Its later children are in it, too."""
        (self._nodes[rank] / "cgroup.procs").write_text(str(pid))

    def limit(self, rank: int, cpu: float | None) -> None:
        """Limit node `rank` to the share `cpu` of one core from now on; None lifts the limit."""
        node = self._nodes[rank]
        period = PERIOD_US if cpu is None else max(PERIOD_US, math.ceil(_MIN_QUOTA_US / cpu))
        quota = None if cpu is None else round(cpu * period)
        if self._version2:
            (node / "cpu.max").write_text(f"{'max' if quota is None else quota} {period}")
        else:
            (node / "cpu.cfs_period_us").write_text(str(period))
            (node / "cpu.cfs_quota_us").write_text(str(-1 if quota is None else quota))

    def check(self) -> None:
        """Do nothing: the kernel enforces the quota."""

    def throttled(self, rank: int) -> dict[str, Any]:
        """Return how often and how long node `rank` was throttled, as in NodeUsage.

        It counts since the group was created. The seconds are summed over cores.
        """
        text = (self._nodes[rank] / "cpu.stat").read_text()
        stat = {name: int(value) for name, value in map(str.split, text.splitlines())}
        seconds = stat["throttled_usec"] * 1e-6 if self._version2 else stat["throttled_time"] * 1e-9
        counts = {"periods": stat["nr_periods"], "throttled_periods": stat["nr_throttled"]}
        return counts | {"throttled_s": seconds}


def find_base() -> Path:
    """Find a folder in which this process may create CPU groups.

    It tries this process's own group and all groups above it. Each trial forks a child, so this
    process must have only one thread.

    Raises:
        OSError: there is none; the message says why.
    """
    if (tree := find_hierarchy()) is None:
        raise OSError("no CPU cgroup is mounted here")
    reasons = []
    for base in tree.groups:
        try:
            _try_groups(base)
        except OSError as error:
            reasons.append(error.strerror or str(error))
        else:
            return base
    why = "; ".join(dict.fromkeys(reasons))
    raise OSError(f"no CPU cgroup may be made in {tree.own} or above ({why})")


def _try_groups(base: Path) -> None:
    """Create a group in `base`, move a child process into it and remove both.

    Raises:
        OSError: one of these is not permitted.
    """
    probe = base / f"nodewise-{os.getpid()}"
    probe.mkdir()
    try:
        if not any((probe / name).exists() for name in ("cpu.max", "cpu.cfs_quota_us")):
            raise OSError("no CPU controller for the groups in it")
        # writing 0 moves the writing process itself
        if code := error_in_child(lambda: (probe / "cgroup.procs").write_text("0")):
            raise OSError(f"no process may be moved there: {os.strerror(code)}")
    finally:
        _remove(probe)


def find_hierarchy(root: Path = _ROOT, groups: Path = _GROUPS) -> Hierarchy | None:
    """Find the cgroup hierarchy that limits CPU time, and this process's own group in it.

    Args:
        root: folder in which the hierarchies are mounted.
        groups: file that lists the groups of this process.

    Returns:
        Version 1 with the CPU controller, or else version 2; None if neither is there.
    """
    for line in sorted(groups.read_text(encoding="utf-8").splitlines(), reverse=True):
        _, controllers, path = line.split(":", 2)
        version = 1 if "cpu" in controllers.split(",") else 2
        mount = root / "cpu" if version == 1 else root
        listed = mount / "cgroup.controllers"  # of version 2
        if version == 2 and not (listed.exists() and "cpu" in listed.read_text().split()):
            continue
        if mount.is_dir() and not (version == 2 and controllers):
            own = mount / path.lstrip("/")
            # a container may see only a part of the hierarchy, without its own group
            return Hierarchy(version, mount, own if own.is_dir() else mount)
    return None


def cores() -> float:
    """Return the number of cores that this process can use, possibly a fraction.

    This is the smallest of the number of cores in its affinity mask and the CPU quotas of its
    group and of all groups above it, as in a container.
    """
    tree = find_hierarchy()
    quotas = [quota_of(group) for group in tree.groups] if tree else []
    return min([len(os.sched_getaffinity(0)), *(quota for quota in quotas if quota is not None)])


def whole_cores() -> int:
    """Return the number of cores that this process can use, rounded down, but at least 1."""
    return max(1, int(cores()))


def quota_of(group: Path) -> float | None:
    """Return the CPU quota of a group in cores; None if it has no quota."""
    try:
        if (group / "cpu.max").exists():
            quota, period = (group / "cpu.max").read_text().split()
        else:
            names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
            quota, period = ((group / name).read_text().strip() for name in names)
    except OSError:  # the root group has no such files
        return None
    return None if quota in ("max", "-1") else int(quota) / int(period)


def remove_stale(ended: int = 0) -> None:
    """Remove the groups that have no processes and whose launchers no longer run.

    Also remove those of the launcher `ended`, and kill what runs in them.
    """
    tree = find_hierarchy()
    bases = tree.groups if tree else []
    for folder in [one for base in bases for one in base.glob("nodewise-*")]:
        launcher = folder.name.removeprefix("nodewise-")
        if launcher == str(ended):
            _remove(folder)
        elif launcher.isdecimal() and not psutil.pid_exists(int(launcher)):
            with suppress(OSError):  # it has processes: a launcher in another container may run
                for group in (*folder.glob("node~*"), folder):
                    group.rmdir()


def _remove(folder: Path) -> None:
    deadline = time.monotonic() + _REMOVE_WITHIN_S
    while folder.exists() and time.monotonic() < deadline:
        for group in (*folder.glob("node~*"), folder):
            with suppress(OSError):
                pids = map(int, (group / "cgroup.procs").read_text().split())
                for pid in filter(None, pids):  # 0 is a process that this container does not see
                    os.kill(pid, signal.SIGKILL)
                group.rmdir()
        time.sleep(0.02)

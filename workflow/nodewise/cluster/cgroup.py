"""Limit CPU time with cgroups, version 1 or 2, and remove the groups reliably.

The groups of a cell are one folder with a subfolder for each node. The folder is named after the
launcher that owns it: `nodewise-<pid>-<start>-<pid namespace>`. A reaper process removes it when
the launcher is gone, whatever the cause. If the reaper was killed as well, `remove_stale` removes
the folder at the next start.

Users other than root need a group that they may write to:

- Version 1: a group named `nodewise`, in the launcher's group or any group above it. The processes
  to move only have to belong to the user.
- Version 2: the launcher must run below a delegated group, because a user who moves a process must
  own the nearest common ancestor of its old and its new group. A group with processes cannot
  enable controllers for its children. So the groups of a cell are siblings of the launcher's
  own group, below a parent that has the CPU controller enabled.
"""

import math
import os
import re
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import psutil

from nodewise.cluster.trial import error_in_child

# With a longer period, short steps run unthrottled. With a period near the scheduler's tick, nodes
# get less than their share.
PERIOD_US = 10_000
_MIN_QUOTA_US = 1_000  # the kernel's minimum; a smaller share gets a longer period
DELEGATED = "nodewise"
_NAME = re.compile(r"nodewise-(\d+)-(\d+)-(\d+)")
_OCTAL = re.compile(r"\\([0-7]{3})")
_REMOVE_WITHIN_S = 8.0


@dataclass(frozen=True)
class Hierarchy:
    """A mounted cgroup hierarchy that may limit CPU time, and this process's own group in it."""

    version: int
    mount: Path
    own: Path


class Throttled(NamedTuple):
    """Throttling of a group: its active quota periods, the throttled ones, seconds throttled."""

    periods: int
    throttled_periods: int
    seconds: float


class CpuGroups:
    """The CPU groups of one cell: one for each node, below a folder named after the launcher."""

    def __init__(self, base: Path, nodes: int) -> None:
        self._version2 = (base / "cgroup.controllers").exists()
        self.folder = base / _own_name()
        self._nodes = [self.folder / f"node~{rank}" for rank in range(nodes)]

    def make(self) -> None:
        """Create the groups.

        Raises:
            OSError: this process is not allowed to.
        """
        self.folder.mkdir()
        if self._version2:
            (self.folder / "cgroup.subtree_control").write_text("+cpu")
        for node in self._nodes:
            node.mkdir()

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

    def throttled(self, rank: int) -> Throttled:
        """Return how often and how long node `rank` was throttled since its group was created.

        The seconds are summed over cores.
        """
        text = (self._nodes[rank] / "cpu.stat").read_text()
        stat = {name: int(value) for name, value in map(str.split, text.splitlines())}
        seconds = stat["throttled_usec"] * 1e-6 if self._version2 else stat["throttled_time"] * 1e-9
        return Throttled(stat["nr_periods"], stat["nr_throttled"], seconds)

    def remove(self) -> None:
        """Kill the processes left in the groups and remove the groups, if they still exist."""
        _remove(self.folder)


def find_base() -> Path:
    """Find a folder in which this process may create CPU groups.

    It forks a child to try each candidate, so this process must have only one thread.

    Raises:
        OSError: there is none; the message says why.
    """
    trees = hierarchies()
    reasons: list[str] = []
    for base in _candidates(trees):
        reason = _why_not(base)
        if reason is None:
            return base
        if reason not in reasons:
            reasons.append(reason)
    if not trees:
        raise OSError("no CPU cgroup is mounted here")
    places = " or ".join(f"{tree.own}" for tree in trees)
    raise OSError(f"no CPU cgroup may be made in {places} or above ({'; '.join(reasons)})")


def hierarchies() -> list[Hierarchy]:
    """Return the cgroup hierarchies that this process is in and that may limit CPU time."""
    mountinfo, cgroup = (Path("/proc/self", name).read_text() for name in ("mountinfo", "cgroup"))
    trees = parse_hierarchies(mountinfo, cgroup)
    return [tree for tree in trees if tree.version == 1 or has_cpu(tree.mount)]


def cores() -> float:
    """Return the number of cores that this process can use, possibly a fraction.

    This is the smallest of the number of cores in its affinity mask and the CPU quotas of its
    group and of all groups above it, as in a container.
    """
    quotas = [
        quota
        for tree in hierarchies()
        for group in (tree.own, *tree.own.parents)
        if group.is_relative_to(tree.mount) and (quota := quota_of(group)) is not None
    ]
    return min([len(os.sched_getaffinity(0)), *quotas])


def whole_cores() -> int:
    """Return the number of cores that this process can use, rounded down, but at least 1."""
    return max(1, int(cores()))


def quota_of(group: Path) -> float | None:
    """Return the CPU quota of a group in cores; None if it has no quota."""
    try:
        if (group / "cpu.max").exists():
            quota, period = (group / "cpu.max").read_text().split()
        else:
            quota, period = (
                (group / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period")
            )
    except OSError:  # the root group has no such files
        return None
    return None if quota in ("max", "-1") else int(quota) / int(period)


def has_cpu(group: Path) -> bool:
    """Return whether a version 2 group has the CPU controller."""
    try:
        return "cpu" in (group / "cgroup.controllers").read_text().split()
    except OSError:
        return False


def parse_hierarchies(mountinfo: str, cgroup: str) -> list[Hierarchy]:
    """Parse the cgroup hierarchies of a process from its files in /proc.

    Args:
        mountinfo: content of /proc/PID/mountinfo.
        cgroup: content of /proc/PID/cgroup.

    Returns:
        Version 1 hierarchies with the CPU controller, and all version 2 hierarchies.
    """
    found = []
    for line in cgroup.splitlines():
        _, controllers, path = line.split(":", 2)
        for mounted in mountinfo.splitlines():
            before, _, after = mounted.partition(" - ")
            kind, _, options = after.split(" ")[:3]
            version2 = kind == "cgroup2" and controllers == ""
            version1 = (
                kind == "cgroup" and "cpu" in controllers.split(",") and "cpu" in options.split(",")
            )
            if version1 or version2:
                root, mount = (_unescaped(field) for field in before.split(" ")[3:5])
                # a container may see only a part of the hierarchy, without its own group
                seen = PurePosixPath(path).is_relative_to(root) and ".." not in path.split("/")
                own = mount / PurePosixPath(path).relative_to(root) if seen else mount
                found.append(Hierarchy(2 if version2 else 1, mount, own))
    return found


def remove_stale(base: Path) -> None:
    """Remove the groups in `base` whose launchers no longer run.

    Groups of launchers in other pid namespaces (containers) stay, because it cannot be seen from
    here whether those launchers run.
    """
    for folder in base.glob("nodewise-*"):
        found = _NAME.fullmatch(folder.name)
        if not found or found[3] != _pid_namespace():
            continue
        if _start_ticks(int(found[1])) != int(found[2]):
            _remove(folder)


@contextmanager
def made(groups: CpuGroups) -> Iterator[None]:
    """Create `groups` for the block and remove them at its end.

    If this process is killed in the block, a reaper process removes them.
    """
    reading, writing = os.pipe()
    reaper = os.fork()
    if reaper == 0:
        os.setsid()  # so that signals to the launcher's process group do not reach the reaper
        os.close(writing)
        os.read(reading, 1)  # returns when all processes that hold the write end are gone
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


def _candidates(trees: Sequence[Hierarchy]) -> Iterator[Path]:
    """Yield this process's CPU groups and all groups above them.

    In version 1, each is followed by its subgroup `nodewise`, if there is one.
    """
    for tree in trees:
        for group in (tree.own, *tree.own.parents):
            if group.is_relative_to(tree.mount):
                yield group
                if tree.version == 1 and (group / DELEGATED).is_dir():
                    yield group / DELEGATED


def _why_not(base: Path) -> str | None:
    """Return why no groups can be created in `base`; None if they can.

    It creates a group, moves a child process into it and removes both.
    """
    probe = base / _own_name()
    try:
        probe.mkdir()
    except OSError as error:
        return error.strerror
    try:
        if not any((probe / name).exists() for name in ("cpu.max", "cpu.cfs_quota_us")):
            return "no CPU controller for the groups in it"
        # writing 0 moves the writing process itself
        code = error_in_child(lambda: (probe / "cgroup.procs").write_text("0"))
        return f"no process may be moved there: {os.strerror(code)}" if code else None
    finally:
        _remove(probe)


def _unescaped(field: str) -> Path:
    """Return the path in a field of mountinfo, in which blanks are octal escapes."""
    return Path(_OCTAL.sub(lambda found: chr(int(found[1], 8)), field))


def _own_name() -> str:
    return f"nodewise-{os.getpid()}-{_start_ticks(os.getpid())}-{_pid_namespace()}"


def _pid_namespace() -> str:
    return str(Path("/proc/self/ns/pid").stat().st_ino)


def _start_ticks(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None if it is gone.

    The pid and this time together identify a process.
    """
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

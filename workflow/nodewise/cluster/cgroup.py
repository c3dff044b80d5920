"""CPU quotas by cgroup, version 1 or 2, and the certainty that none of ours stays behind.

A cell's groups are one folder, `nodewise-<pid>-<start>-<pid namespace>`, named after the launcher
that owns it, with one folder a node inside. A reaper process removes it when the launcher is gone,
however that went; `remove_stale` does so at the next start if the reaper was killed as well.

An ordinary user needs a folder of their own. In version 1 that may be `nodewise`, anywhere above
the launcher's group; the processes moved only have to be the user's. In version 2 the launcher
itself must run below a delegated group: who moves a process must own the nearest group that is
above both its old and its new place. There a group with processes cannot give its children
controllers, so ours are made beside the launcher's own group, below a parent that gives them.
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

# A longer period lets short steps run unthrottled; one near the scheduler's tick falls short.
PERIOD_US = 10_000
_MIN_QUOTA_US = 1_000  # the kernel's; a smaller share has a longer period
DELEGATED = "nodewise"
_NAME = re.compile(r"nodewise-(\d+)-(\d+)-(\d+)")
_OCTAL = re.compile(r"\\([0-7]{3})")
_REMOVE_WITHIN_S = 8.0


@dataclass(frozen=True)
class Hierarchy:
    """A mounted tree of groups that may limit CPU time, and this process's place in it."""

    version: int
    mount: Path
    own: Path


class Throttled(NamedTuple):
    """Quota periods in which a group had something to run, those it was held back in, how long."""

    periods: int
    throttled_periods: int
    seconds: float


class CpuGroups:
    """The CPU groups of one cell: `nodes` folders below one that carries the owner's name."""

    def __init__(self, base: Path, nodes: int) -> None:
        self._version2 = (base / "cgroup.controllers").exists()
        self.folder = base / _own_name()
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
        period = PERIOD_US if cpu is None else max(PERIOD_US, math.ceil(_MIN_QUOTA_US / cpu))
        quota = None if cpu is None else round(cpu * period)
        if self._version2:
            (node / "cpu.max").write_text(f"{'max' if quota is None else quota} {period}")
        else:
            (node / "cpu.cfs_period_us").write_text(str(period))
            (node / "cpu.cfs_quota_us").write_text(str(-1 if quota is None else quota))

    def check(self) -> None:
        """The kernel holds a quota; there is nothing to check."""

    def throttled(self, rank: int) -> Throttled:
        """Return how often and how long node `rank` was held back since its group was made.

        The seconds are summed over the cores that its threads were kept from.
        """
        text = (self._nodes[rank] / "cpu.stat").read_text()
        stat = {name: int(value) for name, value in map(str.split, text.splitlines())}
        seconds = stat["throttled_usec"] * 1e-6 if self._version2 else stat["throttled_time"] * 1e-9
        return Throttled(stat["nr_periods"], stat["nr_throttled"], seconds)

    def remove(self) -> None:
        """End what is left in the groups and remove their folders, if they are still there."""
        _remove(self.folder)


def find_base() -> Path:
    """Return the folder in which this process, which must have one thread, may make CPU groups.

    Raises:
        OSError: there is none; the text says why not.
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
    """Return the trees of groups that this process is in and that may limit CPU time."""
    mountinfo, cgroup = (Path("/proc/self", name).read_text() for name in ("mountinfo", "cgroup"))
    trees = parse_hierarchies(mountinfo, cgroup)
    return [tree for tree in trees if tree.version == 1 or has_cpu(tree.mount)]


def cores() -> float:
    """Return how many cores this process has.

    Those it may run on, or what the quotas leave of them that its group and those above it have,
    as in a container.
    """
    quotas = [
        quota
        for tree in hierarchies()
        for group in (tree.own, *tree.own.parents)
        if group.is_relative_to(tree.mount) and (quota := quota_of(group)) is not None
    ]
    return min([len(os.sched_getaffinity(0)), *quotas])


def whole_cores() -> int:
    """Return how many cores this process has, rounded down, but at least one."""
    return max(1, int(cores()))


def quota_of(group: Path) -> float | None:
    """Return how many cores a group may use at most; None if it has no quota."""
    try:
        if (group / "cpu.max").exists():
            quota, period = (group / "cpu.max").read_text().split()
        else:
            quota, period = (
                (group / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period")
            )
    except OSError:  # the root has none
        return None
    return None if quota in ("max", "-1") else int(quota) / int(period)


def has_cpu(group: Path) -> bool:
    """Return whether a group of version 2 has the controller for CPU time."""
    try:
        return "cpu" in (group / "cgroup.controllers").read_text().split()
    except OSError:
        return False


def parse_hierarchies(mountinfo: str, cgroup: str) -> list[Hierarchy]:
    """Return the trees for CPU time, version 2 always, of a process with these files in /proc."""
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
                # a container may see only a part of the tree, or nothing of its own place in it
                seen = PurePosixPath(path).is_relative_to(root) and ".." not in path.split("/")
                own = mount / PurePosixPath(path).relative_to(root) if seen else mount
                found.append(Hierarchy(2 if version2 else 1, mount, own))
    return found


def remove_stale(base: Path) -> None:
    """Remove the groups of launchers that no longer run; nobody else's.

    Whether a launcher of another pid namespace runs, a container's, cannot be seen from here.
    """
    for folder in base.glob("nodewise-*"):
        found = _NAME.fullmatch(folder.name)
        if not found or found[3] != _pid_namespace():
            continue
        if _start_ticks(int(found[1])) != int(found[2]):
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


def _candidates(trees: Sequence[Hierarchy]) -> Iterator[Path]:
    """Yield this process's own CPU group and those above it, each with its delegated folder."""
    for tree in trees:
        for group in (tree.own, *tree.own.parents):
            if group.is_relative_to(tree.mount):
                yield group
                if tree.version == 1 and (group / DELEGATED).is_dir():
                    yield group / DELEGATED


def _why_not(base: Path) -> str | None:
    """Make a group in `base`, move a child of ours into it, undo both; say what failed."""
    probe = base / _own_name()
    try:
        probe.mkdir()
    except OSError as error:
        return error.strerror
    try:
        if not any((probe / name).exists() for name in ("cpu.max", "cpu.cfs_quota_us")):
            return "no CPU controller for the groups in it"
        # 0 is who writes it
        code = error_in_child(lambda: (probe / "cgroup.procs").write_text("0"))
        return f"no process may be moved there: {os.strerror(code)}" if code else None
    finally:
        _remove(probe)


def _unescaped(field: str) -> Path:
    """Return the path in a field of mountinfo, where blanks are written as octal numbers."""
    return Path(_OCTAL.sub(lambda found: chr(int(found[1], 8)), field))


def _own_name() -> str:
    return f"nodewise-{os.getpid()}-{_start_ticks(os.getpid())}-{_pid_namespace()}"


def _pid_namespace() -> str:
    return str(Path("/proc/self/ns/pid").stat().st_ino)


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

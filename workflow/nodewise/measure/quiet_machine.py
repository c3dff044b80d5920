"""What is watched around every block of timed steps, and whether the block is repeated."""

import math
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import psutil

from nodewise.cluster import cgroup
from nodewise.cluster.api import Cluster
from nodewise.cluster.reference_step import reference_us
from nodewise.cluster.worker_state import cpu_s
from nodewise.results import quiet_thresholds
from nodewise.results.measurement import Conditions

_ROOM = 2  # what a repeated block may take at most, with its warm-up, by what the last one took


class Watch:
    """Watches one block: made just before it, asked just after it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._reference_us = reference_us()
        self._usage = cluster.usage()
        self._machine = _machine()

    def conditions(self) -> Conditions:
        """Return what the block ran under, and in words each threshold that it failed."""
        machine, usage = _machine(), self._cluster.usage()
        spent = _Machine(*(now - then for then, now in zip(self._machine, machine, strict=True)))
        seen = Conditions(
            window_s=spent.at_s,
            reference_before_us=self._reference_us,
            reference_after_us=reference_us(),
            stolen_s=max(0.0, spent.stolen_s),
            foreign_cpu_s=max(0.0, spent.busy_s - spent.own_s),
            nodes=[now - then for then, now in zip(self._usage, usage, strict=True)],
            outside=[],
        )
        failed = quiet_thresholds.failed(
            seen,
            self._cluster.shares,
            cores=cgroup.cores(),
            host_cores=psutil.cpu_count() or 1,
        )
        return seen.model_copy(update={"outside": failed})


class Blocks:
    """The blocks of one launch: one, or up to `limit` of them while the machine is not quiet.

    Not repeated is a block for which the rest of `time_limit_s`, from now on, may be too short: it
    would be lost.
    """

    def __init__(self, cluster: Cluster, *, limit: int, time_limit_s: float = math.inf) -> None:
        self.seen: list[Conditions] = []
        self._cluster = cluster
        self._limit = limit
        self._ends = time.monotonic() + time_limit_s

    def on_meeting(self, name: str, pids: Sequence[int]) -> bool:
        """Do what is due when all workers have met; return whether they are to repeat the block.

        They meet when each is in its node ("placed"), before a block ("warm") and after it
        ("timed").
        """
        if name == "placed":
            self._cluster.connect(pids)
        elif name == "warm":
            self.begin()
        elif name == "timed":
            return self.end()
        return False

    def begin(self) -> None:
        """Hold the nodes to their share from now on, and watch."""
        self._began = time.monotonic()
        self._watch = Watch(self._cluster)
        self._cluster.throttle()

    def end(self) -> bool:
        """Let the nodes run freely; return whether the block is to be repeated."""
        self.seen.append(self._watch.conditions())
        self._cluster.unleash()
        now = time.monotonic()
        fits = now + _ROOM * (now - self._began) < self._ends
        return bool(self.seen[-1].outside) and len(self.seen) < self._limit and fits


class _Machine(NamedTuple):
    """Seconds since some moment: of the clock, and of all cores together."""

    at_s: float
    busy_s: float
    stolen_s: float
    own_s: float


def _machine() -> _Machine:
    return _Machine(
        at_s=time.monotonic(),
        busy_s=_busy_s(),
        stolen_s=psutil.cpu_times().steal,
        own_s=_own_s(),
    )


def _busy_s() -> float:
    """Return the seconds that all processes have run, those included that they have waited for.

    Each counts its own to the nanosecond. /proc/stat samples the cores at the clock's ticks, with
    which quota periods keep step: half a throttled node's time would look like foreign load.
    """
    spent = 0.0
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # gone, or not ours to look at
            spent += sum(process.cpu_times()[:4])
    return spent


def _own_s() -> float:
    """Return the CPU time of this process and all that it started."""
    launcher = psutil.Process()
    return sum(cpu_s(one.pid) for one in (launcher, *launcher.children(recursive=True)))

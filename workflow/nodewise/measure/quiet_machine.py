"""Watch the machine during a block of timed steps."""

import statistics
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

import numpy as np
import psutil

from nodewise.cluster import cgroup
from nodewise.cluster.api import Cluster
from nodewise.results import quiet_thresholds
from nodewise.results.record import Conditions

_RUNS, _SIZE, _PRODUCTS = 9, 512, 4  # of the reference step


class Watch:
    """Watches one block. Create it just before the block, and ask it just after."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._reference_us = reference_us()
        self._usage = cluster.usage()
        self._machine = _machine()

    def conditions(self) -> Conditions:
        """Return the conditions of the block, including in words each threshold that it failed."""
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
        if self._cluster.remote:  # this machine says nothing about the nodes
            return seen
        shares, cores, host_cores = self._cluster.shares, cgroup.cores(), psutil.cpu_count() or 1
        failed = quiet_thresholds.failed(seen, shares, cores=cores, host_cores=host_cores)
        return seen.model_copy(update={"outside": failed})


def reference_us() -> int:
    """Return the CPU microseconds of a fixed computation, which shows how fast this machine is now.

    It is the median of several runs of a few products of 512 × 512 float32 matrices.
    """
    matrix = np.ones((_SIZE, _SIZE), dtype=np.float32)
    runs = []
    for _ in range(_RUNS):
        before = time.process_time_ns()
        for _ in range(_PRODUCTS):
            matrix @ matrix
        runs.append(time.process_time_ns() - before)
    return max(1, round(statistics.median(runs) / 1000))


class _Machine(NamedTuple):
    """A time, and the CPU seconds of all cores together up to that time."""

    at_s: float  # monotonic time
    busy_s: float  # of all processes
    stolen_s: float  # taken away by a hypervisor
    own_s: float  # of this process and all its descendants


def _machine() -> _Machine:
    launcher = psutil.Process()
    return _Machine(
        at_s=time.monotonic(),
        busy_s=_spent_s(psutil.process_iter()),
        stolen_s=psutil.cpu_times().steal,
        own_s=_spent_s([launcher, *launcher.children(recursive=True)]),
    )


def _spent_s(processes: Iterable[psutil.Process]) -> float:
    """Return the CPU seconds of processes, including those of children they have waited for.

    Processes count their own time to the nanosecond. /proc/stat is not used: it samples the cores
    at clock ticks, with which quota periods are in step, so that half of a throttled node's time
    would look like foreign load.
    """
    spent = 0.0
    for process in processes:
        with suppress(psutil.Error):  # it has ended, or may not be inspected
            spent += sum(process.cpu_times()[:4])
    return spent

"""Measure how long something takes, unaffected by changes of the system clock."""

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path


class Period:
    """A period that begins when it is created. Only its beginning is read from the system clock."""

    def __init__(self) -> None:
        self.started_at = datetime.now(UTC)
        self._began = time.monotonic()

    def seconds(self) -> float:
        """Return how long it has lasted so far."""
        return time.monotonic() - self._began

    def finished_at(self) -> datetime:
        """Return its end, if it ended now."""
        return self.started_at + timedelta(seconds=self.seconds())

    def clock_set_s(self) -> float:
        """Return by how much the system clock was set in it: seconds forward, or about zero."""
        return (datetime.now(UTC) - self.finished_at()).total_seconds()


def command_began() -> float:
    """Return the monotonic time at which this process was started, precise to 10 ms."""
    stat = Path("/proc/self/stat").read_text(encoding="utf-8")
    ticks_since_boot = int(stat.rpartition(")")[2].split()[19])  # see proc_pid_stat(5), starttime
    since_boot = time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic() - (since_boot - ticks_since_boot / os.sysconf("SC_CLK_TCK"))

"""How long something took, whatever happens to the clock on the wall meanwhile."""

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path


class Period:
    """Begins when it is made. Only its beginning is read from the clock on the wall."""

    def __init__(self) -> None:
        self.started_at = datetime.now(UTC)
        self._began = time.monotonic()

    def seconds(self) -> float:
        """Return how long it has taken so far."""
        return time.monotonic() - self._began

    def finished_at(self) -> datetime:
        """Return when it ends if it ends now."""
        return self.started_at + timedelta(seconds=self.seconds())


def command_began() -> float:
    """Return when this process was started, by the monotonic clock, to a hundredth of a second."""
    stat = Path("/proc/self/stat").read_text(encoding="utf-8")
    ticks_since_boot = int(stat.rpartition(")")[2].split()[19])  # see proc_pid_stat(5), starttime
    since_boot = time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic() - (since_boot - ticks_since_boot / os.sysconf("SC_CLK_TCK"))

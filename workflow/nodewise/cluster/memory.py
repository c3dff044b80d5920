"""What the kernel says of memory: how much there is, who uses it, whom it killed for it."""

import re
import resource
from contextlib import suppress
from pathlib import Path

import psutil

_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
_VMSTAT = Path("/proc/vmstat")
_KILLS = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)
_LIKELIEST = "1000"
# Names, not classes: TensorFlow must not be imported here.
_ERRORS = ("MemoryError", "ResourceExhaustedError")
_ALLOCATOR = "bad_alloc"  # what C++ prints before it aborts


def machine_bytes() -> int:
    """Return the memory of this machine, or what a container leaves of it."""
    limits = [psutil.virtual_memory().total]
    for path in _LIMITS:
        with suppress(OSError, ValueError):  # "max" is no limit
            limits.append(int(path.read_text(encoding="utf-8")))
    return min(limits)


def be_killed_first() -> None:
    """Have the kernel choose this process before its launcher, which has to write the record."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_LIKELIEST, encoding="utf-8")


def kills() -> int:
    """Return how many processes of this machine the kernel has killed because memory ran out.

    Those that reached the limit of a memory cgroup count, too. 0 if the kernel does not tell.
    """
    with suppress(OSError):
        found = _KILLS.search(_VMSTAT.read_text(encoding="utf-8"))
        return int(found[1]) if found else 0
    return 0


def peak_bytes(pid: int) -> int:
    """Return the most memory that a process has held so far (resident set); 0 if it is gone."""
    return status_bytes(pid, "VmHWM")


def status_bytes(pid: int, name: str) -> int:
    """Return an entry of the kernel's status of a process, in bytes; 0 if the process is gone."""
    with suppress(OSError):
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
        found = re.search(rf"^{name}:\s+(\d+) kB$", status, re.MULTILINE)
        return int(found[1]) * 1024 if found else 0
    return 0


def own_peak_bytes() -> int:
    """Return the most memory that this process has held so far (resident set)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def ran_out(error: BaseException) -> bool:
    """Whether an exception says that an allocation failed."""
    return type(error).__name__ in _ERRORS or _ALLOCATOR in str(error)


def allocator_gave_up(log: list[str]) -> bool:
    """Whether the last lines of a process that aborted say that an allocation failed."""
    return any(_ALLOCATOR in line for line in log)


def out_of_memory(reason: str, peak: int) -> str:
    """Return the reason of a failure with what it failed for: memory."""
    return f"out of memory: {reason}; it had used {peak / 1e9:.2f} GB"

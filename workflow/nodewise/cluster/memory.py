"""Read memory facts from the kernel: size, use by processes and kills for lack of memory."""

import re
from contextlib import suppress
from pathlib import Path

import psutil

_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
_VMSTAT = Path("/proc/vmstat")
_KILLS = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)
_LIKELIEST = "1000"  # highest value of oom_score_adj
# Names instead of classes, because TensorFlow must not be imported here.
_ERRORS = ("MemoryError", "ResourceExhaustedError")
_ALLOCATOR = "bad_alloc"  # what C++ prints before it aborts


def machine_bytes() -> int:
    """Return the memory of this machine in bytes, or a container's limit if that is less."""
    limits = [psutil.virtual_memory().total]
    for path in _LIMITS:
        with suppress(OSError, ValueError):  # "max" means unlimited
            limits.append(int(path.read_text(encoding="utf-8")))
    return min(limits)


def be_killed_first() -> None:
    """Have the kernel kill this process before its launcher, which has to write the record."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_LIKELIEST, encoding="utf-8")


def kills() -> int:
    """Return how many processes of this machine the kernel has killed because memory ran out.

    Processes that reached the limit of a memory cgroup count, too. It is 0 if the kernel does not
    count them.
    """
    with suppress(OSError):
        found = _KILLS.search(_VMSTAT.read_text(encoding="utf-8"))
        return int(found[1]) if found else 0
    return 0


def status_bytes(pid: int, name: str) -> int:
    """Return the entry `name` of /proc/PID/status in bytes; 0 if the process is gone."""
    with suppress(OSError):
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
        found = re.search(rf"^{name}:\s+(\d+) kB$", status, re.MULTILINE)
        return int(found[1]) * 1024 if found else 0
    return 0


def ran_out(error: BaseException) -> bool:
    """Return whether an exception says that an allocation failed."""
    return type(error).__name__ in _ERRORS or _ALLOCATOR in str(error)

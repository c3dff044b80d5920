"""The launcher's view of its workers: their state, their use of CPU and memory, why they failed."""

import shutil
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import NoReturn

import psutil

from nodewise.cluster import memory
from nodewise.cluster.api import NotPermittedError
from nodewise.cluster.channel import Message
from nodewise.cluster.worker import LINE_LENGTH
from nodewise.core.errors import RefusedError

_IDLE_CPU_S = 0.02  # a worker that uses no more CPU time between two looks is idle
_SILENT_S = 2.0
_LOG_LINES = 30
_FORKSERVER_GONE = 255  # multiprocessing reports this exit code if the forkserver is gone
_SHARED_MEMORY = "/dev/shm"  # noqa: S108
_FULL_BYTES = 1 << 20


class WorkerError(Exception):
    """A worker ended without a result, or the job ran out of time."""

    def __init__(self, reason: str, rank: int | None, log_tail: list[str]) -> None:
        super().__init__(reason)
        self.reason = reason
        self.rank = rank
        self.log_tail = log_tail


@dataclass(eq=False)
class Worker:
    """A worker as seen by its launcher. Times (`…_at`) are those of the monotonic clock."""

    rank: int
    process: ForkServerProcess
    connection: Connection
    log: Path
    listening: bool = True
    result: Message | None = None
    failure: Message | None = None  # what the worker reported about its exception
    ended: bool = False  # a worker with a result keeps running: the others may still need it
    failed_at: float = 0.0
    cpu_s: float = 0.0
    peak_bytes: int = 0
    active_at: float = field(default_factory=time.monotonic)  # when it last used CPU time

    @property
    def pid(self) -> int:
        """Process id of the worker."""
        assert self.process.pid is not None  # it was started  # noqa: S101
        return self.process.pid

    def look(self) -> None:
        """Update the worker's CPU time, peak memory and when it was last active."""
        spent, now = cpu_s(self.pid), time.monotonic()
        if spent - self.cpu_s > _IDLE_CPU_S:
            self.active_at = now
        self.cpu_s = spent or self.cpu_s
        self.peak_bytes = max(self.peak_bytes, memory.peak_bytes(self.pid))

    @property
    def lost_a_peer(self) -> bool:
        """Whether the worker failed because another worker was gone."""
        return self.failure is not None and self.failure["peer"]

    @property
    def silent_s(self) -> float:
        """Seconds since the worker was last active."""
        return time.monotonic() - self.active_at

    @property
    def silence(self) -> str:
        """Text that says for how long the worker has not been active."""
        return f"stopped answering for {self.silent_s:.0f} s"

    @property
    def is_stopped(self) -> bool:
        """Whether the process is stopped, for example by SIGSTOP."""
        with suppress(psutil.NoSuchProcess):
            return bool(psutil.Process(self.pid).status() == psutil.STATUS_STOPPED)
        return False

    @property
    def log_tail(self) -> list[str]:
        """The last lines that the worker printed."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return [line[:LINE_LENGTH] for line in lines[-_LOG_LINES:]]


def cpu_s(pid: int) -> float:
    """Return the CPU time of a process in seconds; 0 if the process is gone."""
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


def raise_failure(workers: Sequence[Worker], killed_before: int) -> NoReturn:
    """Raise the error of the worker that caused the others to fail.

    Workers that were killed come first, then those that failed by themselves. If every worker that
    ended only lost a peer, the error names the silent worker that they waited for.

    Args:
        workers: all workers; at least one has ended.
        killed_before: number of processes that the kernel had killed for lack of memory before the
            workers were started.

    Raises:
        WorkerError, RefusedError, NotPermittedError: always.
    """
    ended = [worker for worker in workers if worker.ended]
    first = min(ended, key=lambda w: (w.lost_a_peer, w.failure is not None, w.failed_at))
    if first.lost_a_peer and (silent := _silent(workers)):
        others = "(the others waited for it)"
        raise _error(silent, f"worker {silent.rank} {silent.silence} {others}")
    failure = first.failure or {}
    if failure.get("command") is not None:
        raise NotPermittedError(failure["text"], failure["command"])
    if failure.get("refused"):
        raise RefusedError(failure["text"])
    if all(worker.process.exitcode == _FORKSERVER_GONE for worker in workers):
        raise WorkerError("the process that workers are forked from was killed", None, [])
    text = failure.get("text") or _end_of(first, killed_before)
    raise _error(first, f"rank {first.rank}: {text}")


def too_late(workers: Sequence[Worker], time_limit_s: float) -> WorkerError:
    """Return the error of a job that has run out of time. It names a stopped worker, if any."""
    reason = f"not finished within {time_limit_s:g} s"
    silent = _silent(workers)
    if silent and silent.is_stopped:
        return _error(silent, f"{reason}: worker {silent.rank} {silent.silence}")
    return WorkerError(reason, None, [])


def _silent(workers: Sequence[Worker]) -> Worker | None:
    """Return the worker that has been idle longest although it should be active, if any.

    Stopped workers come first, even those with a result: a server still has to answer the others.
    Running workers count only if they have no result yet.
    """
    silent = [
        (not worker.is_stopped, worker.active_at, worker)
        for worker in workers
        if not worker.ended and worker.silent_s >= _SILENT_S
    ]
    should = [one for one in silent if not one[0] or one[2].result is None]
    return min(should, key=lambda one: one[:2])[2] if should else None


def _end_of(worker: Worker, killed_before: int) -> str:
    """Return how a worker ended that reported no failure itself."""
    code = worker.process.exitcode or 0
    if code >= 0:
        without = "and no result" if worker.result is None else "before the others were done"
        return f"ended with exit code {code} {without}"
    reason = f"killed by {signal.Signals(-code).name}"
    if code == -signal.SIGBUS and shutil.disk_usage(_SHARED_MEMORY).free < _FULL_BYTES:
        return f"{_SHARED_MEMORY} is full ({reason})"
    by_kernel = code == -signal.SIGKILL and memory.kills() > killed_before
    if by_kernel or (code == -signal.SIGABRT and memory.allocator_gave_up(worker.log_tail)):
        return memory.out_of_memory(reason, worker.peak_bytes)
    return reason


def _error(worker: Worker, reason: str) -> WorkerError:
    return WorkerError(reason, worker.rank, worker.log_tail)

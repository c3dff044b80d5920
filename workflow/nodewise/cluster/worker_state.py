"""The launcher's view of its workers, and why they failed."""

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import psutil

from nodewise.cluster import memory
from nodewise.cluster.api import NotPermittedError
from nodewise.cluster.channel import Message
from nodewise.cluster.worker import LINE_LENGTH
from nodewise.core.errors import RefusedError

_LOG_LINES = 30


class WorkerError(Exception):
    """A worker ended without a result, or the job ran out of time."""

    def __init__(self, reason: str, rank: int | None, log_tail: list[str]) -> None:
        super().__init__(reason)
        self.reason = reason
        self.rank = rank
        self.log_tail = log_tail


@dataclass(eq=False)
class Worker:
    """A worker as seen by its launcher.

    Args:
        rank: rank of the worker.
        process: its process.
        connection: connection to it.
        log: file with its output.
        listening: whether messages may still come.
        result: the result that it sent.
        failure: what it reported about its exception.
        ended: whether its process has ended.
        failed_at: when it failed, in seconds of the monotonic clock.
    """

    rank: int
    process: ForkServerProcess
    connection: Connection
    log: Path
    listening: bool = True
    result: Message | None = None
    failure: Message | None = None
    ended: bool = False
    failed_at: float = 0.0

    @property
    def pid(self) -> int:
        """Process id of the worker."""
        assert self.process.pid is not None  # it was started  # noqa: S101
        return self.process.pid

    @property
    def lost_a_peer(self) -> bool:
        """Whether the worker failed because another worker was gone."""
        return self.failure is not None and self.failure["peer"]

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


def failure_of_first(workers: Sequence[Worker], killed_before: int) -> Exception:
    """Return the error of the worker that caused the others to fail.

    Workers that were killed come first, then those that failed by themselves, then those that lost
    a peer.

    Args:
        workers: all workers; at least one has ended.
        killed_before: number of processes that the kernel had killed for lack of memory before the
            workers were started.

    Returns:
        A WorkerError, or the RefusedError or NotPermittedError that the worker raised.
    """
    ended = [worker for worker in workers if worker.ended]
    first = min(ended, key=lambda w: (w.lost_a_peer, w.failure is not None, w.failed_at))
    failure = first.failure or {"text": _end_of(first, killed_before)}
    if failure.get("command") is not None:
        return NotPermittedError(failure["text"], failure["command"])
    if failure.get("refused"):
        return RefusedError(failure["text"])
    return WorkerError(f"rank {first.rank}: {failure['text']}", first.rank, first.log_tail)


def _end_of(worker: Worker, killed_before: int) -> str:
    """Return how a worker ended that reported no failure itself."""
    code = worker.process.exitcode or 0
    if code >= 0:
        without = "and no result" if worker.result is None else "before the others were done"
        return f"ended with exit code {code} {without}"
    reason = f"killed by {signal.Signals(-code).name}"
    if code == -signal.SIGKILL:
        return memory.or_killed(reason, killed_before)
    if code == -signal.SIGABRT and memory.allocator_gave_up(worker.log_tail):
        return f"out of memory: {reason}"
    return reason

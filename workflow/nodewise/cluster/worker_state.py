"""The launcher's view of its workers, and why they failed."""

import re
import signal
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import psutil

from nodewise.cluster import memory
from nodewise.cluster.channel import Message, receive, send
from nodewise.cluster.worker import LINE_LENGTH
from nodewise.core.errors import RefusedError

_LOG_LINES = 30
_END_WITHIN_S, _LATE_S = 10.0, 2.5
_HOME = re.compile(r"/(?:home|Users)/[^/\s]+")


class WorkerError(Exception):
    """A worker ended without a result, or the job ran out of time."""

    def __init__(self, reason: str, rank: int | None = None, log_tail: Sequence[str] = ()) -> None:
        super().__init__(reason)
        self.reason, self.rank, self.log_tail = reason, rank, list(log_tail)


class Worker:
    """A worker as seen by its launcher.

    Attributes:
        rank: rank of the worker.
        connection: connection for its messages.
        log: file with its output.
        listening: whether messages may still come.
        result: the result that it sent.
        failure: what it reported about its exception.
        ended: whether its process has ended.
        failed_at: when it failed, in seconds of the monotonic clock.
        silent_s: for how many seconds it has not answered a heartbeat, if it has to.
    """

    pid: int
    silent_s = 0.0

    def __init__(self, rank: int, connection: Connection, log: Path) -> None:
        self.rank, self.connection, self.log = rank, connection, log
        self.listening, self.ended, self.failed_at = True, False, 0.0
        self.result: Message | None = None
        self.failure: Message | None = None

    def begin(self) -> None:
        """Have the worker begin its work."""
        self.send({})

    def send(self, message: Message) -> None:
        """Send the worker a message."""
        send(self.connection, message)

    def receive(self) -> Message:
        """Return its next message.

        Raises:
            ConnectionError: the worker is gone.
        """
        return receive(self.connection)

    def beat(self) -> None:
        """Tell the worker that the launcher is alive; called several times a second."""

    def exit_code(self) -> int | None:
        """Return the exit code of the worker's process; None while it runs."""
        raise NotImplementedError

    def end_of(self) -> str:
        """Return how a worker ended that reported no failure itself."""
        return ending(self.exit_code() or 0)

    def close(self) -> None:
        """Release what belongs to the worker, whose process has been killed."""
        self.connection.close()

    @property
    def lost_a_peer(self) -> bool:
        """Whether the worker failed because another worker was gone."""
        return self.failure is not None and self.failure["peer"]

    @property
    def log_tail(self) -> list[str]:
        """The last lines that the worker printed. Paths in them name no person's folder."""
        text = self.log.read_text(encoding="utf-8", errors="replace")
        lines = _HOME.sub("~", text.replace(f"{Path.cwd()}/", "")).splitlines()
        return [line[:LINE_LENGTH] for line in lines[-_LOG_LINES:]]


class LocalWorker(Worker):
    """A worker that is a process of this machine, forked from the forkserver."""

    def __init__(
        self, rank: int, connection: Connection, log: Path, process: ForkServerProcess
    ) -> None:
        super().__init__(rank, connection, log)
        assert process.pid is not None  # it was started  # noqa: S101
        self._process, self.pid = process, process.pid

    def exit_code(self) -> int | None:
        return self._process.exitcode

    def close(self) -> None:
        self._process.join(_END_WITHIN_S)
        super().close()


def ending(code: int) -> str:
    """Say how a process with this exit code ended. Shells add 128 to the number of a signal."""
    with suppress(ValueError):
        return f"killed by {signal.Signals(-code if code < 0 else code - 128).name}"
    return f"ended with exit code {code}"


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
    a peer. If the others only lost a peer, a worker that does not answer comes first.

    Args:
        workers: all workers; at least one has ended.
        killed_before: number of processes that the kernel had killed for lack of memory before the
            workers were started.

    Returns:
        A WorkerError, or the RefusedError that the worker raised.
    """
    ended = [worker for worker in workers if worker.ended]
    if all(worker.lost_a_peer for worker in ended):
        ended = [worker for worker in workers if worker.silent_s > _LATE_S] or ended
    first = min(ended, key=lambda w: (w.lost_a_peer, w.failure is not None, w.failed_at))
    failure = first.failure or {"text": first.end_of()}
    if failure["text"] == f"killed by {signal.SIGKILL.name}" and memory.kills() > killed_before:
        failure["text"] = f"out of memory: {failure['text']}"
    if failure.get("refused"):
        return RefusedError(failure["text"])
    return WorkerError(f"rank {first.rank}: {failure['text']}", first.rank, first.log_tail)

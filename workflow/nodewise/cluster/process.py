"""Start the worker processes of a cell, hear what they send, and end them.

Workers are forked from the forkserver of `multiprocessing`: importing TensorFlow takes seconds,
forking a process that has done so takes milliseconds. The forkserver starts with the first worker;
it inherits the launcher's environment and network, and ends after the launcher and the workers.

A guard, a process that does nothing but wait for the launcher's end, then kills the workers and
what they started. They could not do so themselves: a duty cycle may have stopped them.
"""

import multiprocessing
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import psutil

from nodewise.cluster import memory
from nodewise.cluster.channel import Message, receive, send
from nodewise.cluster.guard import end_with_parent, guarded, kill_group
from nodewise.cluster.worker import Work, be_worker
from nodewise.cluster.worker_state import Worker, WorkerError, raise_failure, too_late

__all__ = ["START_WITHIN_S", "WorkerError", "run"]

_POLL_S = 0.2
_LOOK_S = 1.0  # between two looks at what the workers use
# When one worker dies the others fail too, within this time, for want of a peer.
_GRACE_S = 2.0
START_WITHIN_S = 120.0  # to import what workers need, before their time limit counts
_END_WITHIN_S = 10.0


def run(
    size: int,
    work: Work,
    *,
    logs: Path,
    time_limit_s: float,
    preload: Sequence[str] = (),
    on_message: Callable[[int, Message], None] = lambda rank, message: None,
    on_meeting: Callable[[str, list[int]], bool | None] = lambda name, pids: False,
    on_poll: Callable[[], None] = lambda: None,
    on_out_of_memory: Callable[[int], None] = lambda used: None,
) -> list[Message]:
    """Start `size` workers that call `work(rank, channel)`; return what each returned, by rank.

    Returns or raises when no worker is left, nor what it started. The same holds soon after this
    process is killed, or hangs for much longer than `time_limit_s`: then it is killed.
    What left the process group of a worker that was killed stays, unless its node has a CPU group.

    Args:
        size: how many workers.
        work: a function of a module, or a `partial` of one: it is pickled by `multiprocessing`.
        logs: the folder for what workers print, `rank~R.log`.
        time_limit_s: counts from the start of the last worker.
        preload: modules that are imported once for all workers; what an earlier call in this
            process named holds.
        on_message: gets what workers send.
        on_meeting: gets a meeting's name and the workers' pids when all have come to it; what it
            returns is what `Channel.meet` returns to each of them.
        on_poll: is called several times a second, and may raise.
        on_out_of_memory: is called, in another process, with the bytes that this process had used
            if the kernel killed it because memory ran out.

    Raises:
        WorkerError: a worker raised, was killed or ended early, or `time_limit_s` was over. The
            rank named is the one that failed first of itself, not one that lost its peer.
        RefusedError, NotPermittedError: that rank raised one.
    """
    logs.mkdir(parents=True, exist_ok=True)
    multiprocessing.set_forkserver_preload([__name__, *preload])
    workers: list[Worker] = []
    job = _Job(workers, time_limit_s, on_message, on_meeting, on_poll)
    with guarded(START_WITHIN_S + time_limit_s, on_out_of_memory) as guard:
        try:
            for rank in range(size):
                workers.append(_start(rank, work, logs / f"rank~{rank}.log"))
                guard(workers[-1].pid)
                send(workers[-1].connection, {})  # from now on it ends with this process
            return job.results()
        finally:
            with _later(signal.SIGINT, signal.SIGTERM):  # else the guard would end before they do
                _end(workers)


def _start(rank: int, work: Work, log: Path) -> Worker:
    """Start a worker; it waits for a first message before it works.

    Raises:
        OSError: its log cannot be written.
        WorkerError: the forkserver ended.
    """
    log.write_bytes(b"")
    context = multiprocessing.get_context("forkserver")
    ours, theirs = context.Pipe()
    process = context.Process(target=be_worker, args=(rank, work, theirs, log))
    killed = memory.kills()
    try:
        with _later(signal.SIGINT):  # kept from what is started, too
            process.start()
    except (EOFError, ConnectionError) as error:
        reason = "the process that workers are forked from ended"
        if memory.kills() > killed:
            reason = f"out of memory: {reason}"
        raise WorkerError(reason, None, []) from error
    finally:
        theirs.close()
    return Worker(rank, process, ours, log)


@contextmanager
def _later(*signals: signal.Signals) -> Iterator[None]:
    """Hold signals back until the end of the block; what is started in it never gets them."""
    resource_tracker.ensure_running()  # would let signals through again when it is started
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Job:
    """Hears the workers of one job, holds their meetings, and says why they failed."""

    def __init__(
        self,
        workers: list[Worker],
        time_limit_s: float,
        on_message: Callable[[int, Message], None],
        on_meeting: Callable[[str, list[int]], bool | None],
        on_poll: Callable[[], None],
    ) -> None:
        self._workers, self._time_limit_s = workers, time_limit_s
        self._on_message, self._on_meeting, self._on_poll = on_message, on_meeting, on_poll
        self._waiting: Counter[str] = Counter()
        self._shared: dict[int, Any] = {}  # by rank
        self._killed_before = memory.kills()

    def results(self) -> list[Message]:
        """Return what each worker returned, by rank; raise what the first to fail failed of."""
        deadline = time.monotonic() + self._time_limit_s
        failing_until = look_at = 0.0
        while not all(worker.result is not None for worker in self._workers):
            self._receive()
            now = time.monotonic()
            if now >= look_at:
                look_at = now + _LOOK_S
                for worker in self._workers:
                    worker.look()
            if any(worker.ended for worker in self._workers):
                failing_until = failing_until or now + _GRACE_S
                if now >= failing_until:
                    raise_failure(self._workers, self._killed_before)
            if now >= deadline:
                raise too_late(self._workers, self._time_limit_s)
            end_with_parent()
            self._on_poll()
        return [worker.result for worker in self._workers if worker.result is not None]

    def _receive(self) -> None:
        """Wait a moment for what the workers send, and for their end."""
        sources = {worker.process.sentinel: worker for worker in self._workers if not worker.ended}
        connections = {worker.connection: worker for worker in self._workers if worker.listening}
        for ready in wait([*sources, *connections], _POLL_S):
            if isinstance(ready, Connection):
                self._read(connections[ready])
        for worker in sources.values():
            if worker.process.exitcode is not None:
                self._read(worker)
                worker.ended = True
                worker.failed_at = worker.failed_at or time.monotonic()

    def _read(self, worker: Worker) -> None:
        """Take what a worker has sent."""
        try:
            while worker.listening and worker.connection.poll():
                self._handle(worker, receive(worker.connection))
        except (EOFError, ConnectionError):  # what is left may be half a message of a killed worker
            worker.listening = False

    def _handle(self, worker: Worker, message: Message) -> None:
        if "result" in message:
            worker.result = message["result"]
        elif "failure" in message:
            worker.failure, worker.failed_at = message["failure"], message["at"]
        elif "meet" in message:
            self._waiting[message["meet"]] += 1
            if self._waiting[message["meet"]] == len(self._workers):
                del self._waiting[message["meet"]]  # the same name may be met at again
                self._hold(message["meet"])
        elif "share" in message:
            self._share(worker, message["share"], message["workers"])
        else:
            self._on_message(worker.rank, message)

    def _hold(self, meeting: str) -> None:
        """Hold a meeting; one of which somebody died while it waited is left to `results`."""
        if any(worker.ended for worker in self._workers):
            return
        with suppress(ProcessLookupError, BrokenPipeError):
            again = self._on_meeting(meeting, [worker.pid for worker in self._workers])
            for worker in self._workers:
                send(worker.connection, {"again": bool(again)})

    def _share(self, worker: Worker, value: Any, workers: int) -> None:  # noqa: ANN401
        """Keep what a worker shares; when all have shared something, send it to all of them."""
        self._shared[worker.rank] = value
        if len(self._shared) < workers:
            return
        shared, self._shared = self._shared, {}
        with suppress(ProcessLookupError, BrokenPipeError):
            for rank in shared:
                everything = [shared[one] for one in sorted(shared)]
                send(self._workers[rank].connection, {"shared": everything})


def _end(workers: list[Worker]) -> None:
    """Kill the workers and what they started, and wait for their end."""
    started = [child for worker in workers for child in _children(worker.pid)]
    for worker in workers:
        kill_group(worker.pid)
    for process in started:  # those that left their group
        with suppress(psutil.NoSuchProcess):
            process.kill()
    for worker in workers:
        worker.process.join(_END_WITHIN_S)
        worker.connection.close()


def _children(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []

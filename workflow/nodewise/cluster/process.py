"""Start the worker processes of a cell, receive their messages and end them.

Workers are forked from the forkserver of `multiprocessing`, because importing TensorFlow takes
seconds and forking a process that has imported it takes milliseconds. The forkserver starts with
the first worker. It inherits the launcher's environment and network, and it ends after the launcher
and the workers.

A guard process waits for the launcher's end, then kills the workers and what they started. The
workers cannot do so themselves, because a duty cycle may have stopped them.
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
_LOOK_S = 1.0  # seconds between two checks of the workers' CPU time and memory
# When one worker dies, the others lose a peer and fail too, within this time.
_GRACE_S = 2.0
START_WITHIN_S = 120.0  # time to import what workers need; their time limit starts afterwards
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
    """Start `size` workers that call `work(rank, channel)`; return their results by rank.

    When this function returns or raises, all workers and the processes that they started have
    ended. They also end soon after this process is killed. A guard kills this process if it hangs
    for much longer than `time_limit_s`.

    Only a process that has left the process group of a killed worker may survive, and only if the
    worker's node has no CPU group.

    Args:
        size: number of workers.
        work: a function of a module, or a `partial` of one, so that `multiprocessing` can pickle
            it.
        logs: folder for the output of the workers, one file `rank~R.log` each.
        time_limit_s: time limit in seconds, counted from the start of the last worker.
        preload: modules that are imported once for all workers. Only the modules of the first call
            in this process count.
        on_message: called with the rank and the message when a worker sends one.
        on_meeting: called with a meeting's name and the pids of all workers when all of them have
            come to it. `Channel.meet` returns its result to each worker.
        on_poll: called several times a second; may raise.
        on_out_of_memory: called if the kernel killed this process because memory ran out, with the
            bytes that it had used. It is called in another process.

    Raises:
        WorkerError: a worker raised, was killed or ended early, or the time limit was reached. It
            names the rank that failed first by itself, not one that only lost its peer.
        RefusedError, NotPermittedError: that rank raised this error.
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
                send(workers[-1].connection, {})  # starts its work, now that the guard knows it
            return job.results()
        finally:
            with _later(signal.SIGINT, signal.SIGTERM):  # the guard must not end before the workers
                _end(workers)


def _start(rank: int, work: Work, log: Path) -> Worker:
    """Start a worker. It waits for a first message before it calls its work.

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
        with _later(signal.SIGINT):  # what is started inherits this and never gets SIGINT
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
    """Block signals until the end of the block. Processes started in it keep them blocked."""
    resource_tracker.ensure_running()  # started inside the block, it would unblock signals
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Job:
    """Receives the messages of one job's workers, holds their meetings and reports failures."""

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
        """Return the results of the workers by rank, or raise the error of the first to fail."""
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
        """Wait up to _POLL_S seconds for messages of workers and for the end of workers."""
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
        """Handle all messages that a worker has sent."""
        try:
            while worker.listening and worker.connection.poll():
                self._handle(worker, receive(worker.connection))
        except (EOFError, ConnectionError):  # a killed worker may leave half a message
            worker.listening = False

    def _handle(self, worker: Worker, message: Message) -> None:
        if "result" in message:
            worker.result = message["result"]
        elif "failure" in message:
            worker.failure, worker.failed_at = message["failure"], message["at"]
        elif "meet" in message:
            self._waiting[message["meet"]] += 1
            if self._waiting[message["meet"]] == len(self._workers):
                del self._waiting[message["meet"]]  # a later meeting may have the same name
                self._hold(message["meet"])
        elif "share" in message:
            self._share(worker, message["share"], message["workers"])
        else:
            self._on_message(worker.rank, message)

    def _hold(self, meeting: str) -> None:
        """Hold a meeting. If a worker has ended meanwhile, leave it to `results` to raise."""
        if any(worker.ended for worker in self._workers):
            return
        with suppress(ProcessLookupError, BrokenPipeError):
            again = self._on_meeting(meeting, [worker.pid for worker in self._workers])
            for worker in self._workers:
                send(worker.connection, {"again": bool(again)})

    def _share(self, worker: Worker, value: Any, workers: int) -> None:  # noqa: ANN401
        """Store the value that a worker shares; send all values to all once they are complete."""
        self._shared[worker.rank] = value
        if len(self._shared) < workers:
            return
        shared, self._shared = self._shared, {}
        with suppress(ProcessLookupError, BrokenPipeError):
            for rank in shared:
                everything = [shared[one] for one in sorted(shared)]
                send(self._workers[rank].connection, {"shared": everything})


def _end(workers: list[Worker]) -> None:
    """Kill the workers and the processes that they started, and wait for the workers to end."""
    started = [child for worker in workers for child in _children(worker.pid)]
    for worker in workers:
        kill_group(worker.pid)
    for process in started:  # some may have left the process group of their worker
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

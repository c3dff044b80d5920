"""Run a job: start its worker processes, receive their messages and end them.

The states of a worker, as the job sees them::

    started ──> working <──> meeting     waits until all workers meet and the job has acted on it
                   │  └────> done        has a result, and runs on: others may still need it
                   └───────> ended       was killed, or reported a failure and left

A job returns when all workers are done. When one has ended, the others lose a peer and fail, too.
So the job waits a little, then raises the error of the one that failed first by itself. In both
cases all workers and what they started are killed at the end.

Workers are forked from the forkserver of `multiprocessing`, because importing TensorFlow takes
seconds and forking a process that has imported it takes milliseconds. The forkserver starts with
the first worker. It inherits the launcher's environment and network. It ends with the launcher, and
workers end with it, even if the guard is killed, too.
"""

import multiprocessing
import time
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from nodewise.cluster import memory
from nodewise.cluster.channel import Message
from nodewise.cluster.guard import guarded
from nodewise.cluster.worker import Work, be_worker
from nodewise.cluster.worker_state import LocalWorker, Worker, WorkerError, failure_of_first

__all__ = ["START_WITHIN_S", "Job", "WorkerError"]

_POLL_S = 0.2
_GRACE_S = 2.0  # when one worker dies, the others lose a peer and fail, too, within this time
_SILENCE_S = 4.0  # the same if the one that died is on a host that only falls silent
START_WITHIN_S = 120.0  # time to import what workers need; their time limit starts afterwards


class Job:
    """A number of workers that each do the same work and return a result.

    Subclasses override `start` and the methods `on_…`, which are called in the launcher.
    """

    def __init__(
        self,
        size: int,
        work: Work,
        *,
        logs: Path,
        time_limit_s: float,
        preload: Sequence[str] = (),
    ) -> None:
        """Describe a job of `size` workers, each of which calls `work(rank, channel)`.

        Args:
            size: number of workers.
            work: a function of a module, or a `partial` of one, so that `multiprocessing` can
                pickle it.
            logs: folder for the output of the workers, one file `rank~R.log` each.
            time_limit_s: time limit in seconds, counted from the start of the last worker.
            preload: modules that are imported once for all workers. Only the modules of the first
                job in this process count.
        """
        self._size, self._work, self._preload = size, work, preload
        self._logs, self._time_limit_s = logs, time_limit_s
        self._workers: list[Worker] = []
        self._meetings: dict[str, dict[int, Any]] = {}  # name -> values of those who wait, by rank
        self._killed_before = memory.kills()

    def on_message(self, rank: int, message: Message) -> None:
        """Handle a message that a worker has sent."""

    def on_meeting(self, name: str, pids: list[int]) -> bool | None:
        """Act when all have come to the meeting `name`; `pids` are those of all workers.

        Returns:
            What `Channel.meet` returns to each worker.
        """

    def on_poll(self) -> None:
        """Check something; called several times a second. May raise."""

    def run(self) -> list[Message]:
        """Run the workers; return their results by rank.

        When this method returns or raises, all workers and the processes that they started have
        ended. They also end soon after this process is killed. A guard kills this process if it
        hangs for much longer than the time limit.

        Only a process that has left the process group of a killed worker may survive, and only if
        the worker's node has no CPU group.

        Raises:
            WorkerError: a worker raised, was killed or ended early, or the time limit was reached.
                It names the rank that failed first by itself, not one that only lost its peer.
            RefusedError: that rank raised this error.
        """
        self._logs.mkdir(parents=True, exist_ok=True)
        ending = "nodewise.cluster.fork_server"
        multiprocessing.set_forkserver_preload([ending, __name__, *self._preload])
        try:
            with guarded(START_WITHIN_S + self._time_limit_s) as guard:
                for rank in range(self._size):
                    log = self._logs / f"rank~{rank}.log"
                    self._workers.append(self.start(rank, log))
                    guard(self._workers[-1].pid)
                for worker in self._workers:
                    with suppress(ConnectionError):  # it has ended, which is seen later
                        worker.begin()
                self._wait_for_results()
        finally:
            for worker in self._workers:
                worker.close()
        return [worker.result for worker in self._workers if worker.result is not None]

    def start(self, rank: int, log: Path) -> Worker:
        """Start a worker, which does not begin its work yet. Its output goes to `log`.

        Raises:
            OSError: the log cannot be written.
            WorkerError: the forkserver ended.
        """
        log.write_bytes(b"")
        context = multiprocessing.get_context("forkserver")
        ours, theirs = context.Pipe()
        process = context.Process(target=be_worker, args=(rank, self._work, theirs, log))
        try:
            process.start()
        except (EOFError, ConnectionError) as error:
            reason = "the process that workers are forked from ended"
            raise WorkerError(reason) from error
        finally:
            theirs.close()
        return LocalWorker(rank, ours, log, process)

    def _wait_for_results(self) -> None:
        """Handle messages until all workers are done, or raise the error of the first to fail."""
        deadline, failing_since = time.monotonic() + self._time_limit_s, 0.0
        while not all(worker.result is not None for worker in self._workers):
            self._receive()
            now = time.monotonic()
            if ended := [worker for worker in self._workers if worker.ended]:
                failing_since = failing_since or now
                lost = all(worker.lost_a_peer for worker in ended)
                if now >= failing_since + (_SILENCE_S if lost else _GRACE_S):
                    raise failure_of_first(self._workers, self._killed_before)
            if now >= deadline:
                raise WorkerError(f"not finished within {self._time_limit_s:g} s")
            for worker in self._workers:
                worker.beat()
            self.on_poll()

    def _receive(self) -> None:
        """Wait up to _POLL_S seconds for messages of workers, and note which have ended."""
        connections = {worker.connection: worker for worker in self._workers if worker.listening}
        for ready in wait([*connections], _POLL_S):
            self._read(connections[ready])  # type: ignore[index]
        for worker in self._workers:
            if not worker.ended and worker.exit_code() is not None:
                self._read(worker)
                worker.ended = True
                worker.failed_at = worker.failed_at or time.monotonic()

    def _read(self, worker: Worker) -> None:
        """Handle all messages that a worker has sent."""
        try:
            while worker.listening and worker.connection.poll():
                self._handle(worker, worker.receive())
        except ConnectionError:  # a killed worker may leave half a message
            worker.listening = False

    def _handle(self, worker: Worker, message: Message) -> None:
        if "result" in message:
            worker.result = message["result"]
        elif "failure" in message:
            worker.failure, worker.failed_at = message["failure"], message["at"]
        elif "meet" in message:
            values = self._meetings.setdefault(message["meet"], {})
            values[worker.rank] = message.get("value")
            if len(values) == message.get("workers", len(self._workers)):
                self._hold(message["meet"])
        elif "heartbeat" not in message:
            self.on_message(worker.rank, message)

    def _hold(self, meeting: str) -> None:
        """Hold a meeting. If a worker has ended meanwhile, its error is raised later."""
        values = self._meetings.pop(meeting)  # a later meeting may have the same name
        if any(worker.ended for worker in self._workers):
            return
        with suppress(ProcessLookupError, BrokenPipeError):
            again = self.on_meeting(meeting, [worker.pid for worker in self._workers])
            answer = {"again": bool(again), "values": [values[rank] for rank in sorted(values)]}
            for rank in values:
                self._workers[rank].send(answer)

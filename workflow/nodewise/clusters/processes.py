"""Workers as processes, forked from one that has imported TensorFlow.

Importing TensorFlow costs seconds; forking a process that has done so and touched nothing else
costs milliseconds. A worker dies with its launcher, whatever ends that.
"""

import json
import os
import select
import selectors
import signal
import stat
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import psutil

from nodewise.clusters.base import NotPermittedError
from nodewise.errors import RefusedError
from nodewise.parents import end_with

Message = dict[str, Any]

# Read when this module is loaded or this process forked: later it may be another process already.
_PARENT = [os.getppid()]
os.register_at_fork(after_in_child=lambda: _PARENT.__setitem__(0, os.getppid()))
_POLL_S = 0.2
# When one worker dies the others fail too, within this time, for want of a peer.
_GRACE_S = 2.0
_LOG_LINES = 30
_LOG_LINE_LENGTH = 500
_ON, _AGAIN = b"n", b"a"
_SAYING_NOTHING = ("", "Graph execution error:")  # first lines of errors


class WorkerError(Exception):
    """A worker ended without a result, or the job ran out of time."""

    def __init__(self, reason: str, rank: int | None, log_tail: list[str]) -> None:
        super().__init__(reason)
        self.reason = reason
        self.rank = rank
        self.log_tail = log_tail


class Channel:
    """A worker's line to its launcher."""

    def __init__(self, writing: int, reading: int) -> None:
        self._stream = os.fdopen(writing, "w", encoding="utf-8")
        self._reading = reading

    def send(self, message: Message) -> None:
        """Tell the launcher something."""
        self._stream.write(json.dumps(message) + "\n")
        self._stream.flush()

    def meet(self, name: str) -> bool:
        """Return when every worker has come to meeting `name` and the launcher has acted on it.

        True if the launcher wants what was done since the last meeting done once more.
        """
        self.send({"meet": name})
        answer = os.read(self._reading, 1)
        if not answer:
            raise ConnectionError("the launcher is gone")
        return answer == _AGAIN


@dataclass
class _Worker:
    rank: int
    pid: int
    pipe: int
    release: int
    log: Path
    unread: bytes = b""
    result: Message | None = None
    error: str | None = None
    peer_error: bool = False
    refused: bool = False
    command: str | None = None  # of a NotPermittedError
    status: int | None = None
    failed_at: float = 0.0  # of the monotonic clock

    @property
    def failed(self) -> bool:
        """Whether it has ended: one that is done waits for the others, who may still need it."""
        return self.status is not None

    @property
    def reason(self) -> str:
        if self.error:
            return self.error
        if self.status is not None and self.status < 0:
            return f"killed by {signal.Signals(-self.status).name}"
        without = "and no result" if self.result is None else "before the others were done"
        return f"ended with exit code {self.status} {without}"

    def raise_it(self) -> NoReturn:
        """Raise what it failed of."""
        if self.command is not None:
            raise NotPermittedError(self.reason, self.command)
        if self.refused:
            raise RefusedError(self.reason)
        raise WorkerError(f"rank {self.rank}: {self.reason}", self.rank, _tail(self.log))


def run(
    size: int,
    work: Callable[[int, Channel], Message],
    *,
    logs: Path,
    time_limit_s: float,
    on_message: Callable[[int, Message], None] = lambda rank, message: None,
    on_meeting: Callable[[str, list[int]], bool] = lambda name, pids: False,
    on_poll: Callable[[], None] = lambda: None,
) -> list[Message]:
    """Fork `size` workers that call `work(rank, channel)`; return what each returned, by rank.

    What a worker prints goes to `logs/rank~R.log`; what it sends goes to `on_message`. When all
    have come to a meeting, `on_meeting` gets its name and their pids; what it returns is what
    `Channel.meet` returns to each of them. `on_poll` is called several times a second and may
    raise. On return, on any exception, and should this process be killed, no worker is left, nor
    what it started. Of what a killed one had started, what left its group stays, unless its node
    has a CPU group.

    Raises:
        WorkerError: a worker raised, was killed or ended early, or `time_limit_s` was over. The
            rank named is the one that failed first of itself, not one that lost its peer.
        RefusedError, NotPermittedError: that rank raised one.
    """
    logs.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + time_limit_s
    workers: list[_Worker] = []
    try:
        for rank in range(size):
            workers.append(_fork(rank, work, logs / f"rank~{rank}.log", workers))
        ear = _Ear(workers, on_message, on_meeting)
        _listen(workers, deadline, time_limit_s, ear, on_poll)
        return [worker.result for worker in workers if worker.result is not None]
    finally:
        _end(workers)


def _fork(
    rank: int, work: Callable[[int, Channel], Message], log: Path, earlier: list[_Worker]
) -> _Worker:
    launcher = os.getpid()
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    reading, writing = os.pipe()
    released, release = os.pipe()
    pid = os.fork()
    if pid:
        _lead_group(pid)
        os.close(output)
        os.close(writing)
        os.close(released)
        return _Worker(rank, pid, reading, release, log)
    code = 1
    try:
        if not end_with(launcher):
            os._exit(1)
        _lead_group(0)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        for descriptor in (reading, release, *_descriptors(earlier)):
            os.close(descriptor)
        _guard_group(released)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.stdout = sys.stderr = os.fdopen(1, "w", buffering=1, closefd=False)
        _keep_from_children()
        code = _work(rank, work, Channel(writing, released))
        _kill(psutil.Process().children(recursive=True))
    finally:
        os._exit(code)  # the launcher's exit handlers and buffers are not this process's


def _lead_group(pid: int) -> None:
    """Put a worker into a group of its own: what it starts is in it, too, and ends with it.

    Both sides do so, since either may be the first to need it.
    """
    with suppress(OSError):  # it has ended
        os.setpgid(pid, pid)


def _guard_group(released: int) -> None:
    """Have this worker's group ended when the launcher is: the kernel ends the worker alone.

    A process of the group does it, which sleeps until nobody can write to `released` any more. As
    long as it is there, no other group can have this one's number.
    """
    if os.fork():
        return
    os.closerange(0, released)
    os.closerange(released + 1, os.sysconf("SC_OPEN_MAX"))
    gone = select.poll()
    gone.register(released, 0)  # what the launcher writes is the worker's
    gone.poll()
    os.killpg(0, signal.SIGKILL)


def _keep_from_children() -> None:
    """Have whatever this worker forks close the pipes and sockets that come from the launcher.

    Who holds them counts as a worker: to the launcher, to its reaper and for the machine's lock.
    """
    kept = []
    for descriptor in (int(link.name) for link in Path("/proc/self/fd").iterdir()):
        with suppress(OSError):  # that of the listing itself
            found = os.fstat(descriptor)
            if descriptor > 2 and (stat.S_ISFIFO(found.st_mode) or stat.S_ISSOCK(found.st_mode)):
                kept.append((descriptor, found))

    def let_go() -> None:
        for descriptor, found in kept:
            with suppress(OSError):  # closed meanwhile; it may also be something else by now
                if os.path.samestat(os.fstat(descriptor), found):
                    os.close(descriptor)

    os.register_at_fork(after_in_child=let_go)


def _work(rank: int, work: Callable[[int, Channel], Message], channel: Channel) -> int:
    try:
        channel.send({"result": work(rank, channel)})
        signal.pause()  # leaving now would break the others' connections; the launcher ends us
        return 0
    except BaseException as error:
        failed_at = time.monotonic()
        traceback.print_exc()
        lines = [line.strip() for line in str(error).splitlines()]
        first_line = next((line for line in lines if line not in _SAYING_NOTHING), "")
        # names, not classes: this module must not import TensorFlow
        peer_error = isinstance(error, (ConnectionError, TimeoutError)) or type(error).__name__ in (
            "UnavailableError",
            "AbortedError",
            "CancelledError",
            "DeadlineExceededError",
        )
        refused = isinstance(error, (RefusedError, NotPermittedError))
        text = first_line if refused else f"{type(error).__name__}: {first_line}"
        told = {"error": text[:_LOG_LINE_LENGTH], "peer": peer_error, "refused": refused}
        command = error.command if isinstance(error, NotPermittedError) else None
        channel.send(told | {"command": command, "at": failed_at})
        return 1


def _listen(
    workers: list[_Worker],
    deadline: float,
    time_limit_s: float,
    ear: "_Ear",
    on_poll: Callable[[], None],
) -> None:
    """Hear all workers out; raise the error of the first that fails, after a short grace."""
    failing_until = None
    with selectors.DefaultSelector() as selector:
        for worker in workers:
            selector.register(worker.pipe, selectors.EVENT_READ, worker)
        while any(worker.result is None for worker in workers):
            for key, _ in selector.select(_POLL_S):
                if not ear.hear(key.data):
                    selector.unregister(key.fileobj)
            now = time.monotonic()
            if any(worker.failed for worker in workers):
                failing_until = failing_until or now + _GRACE_S
            if failing_until is not None and now >= failing_until:
                break
            if now >= deadline:
                raise WorkerError(f"not finished within {time_limit_s:g} s", None, [])
            end_with_parent()
            on_poll()
    if all(worker.result is not None for worker in workers):
        return
    # killed, then failed of itself, then failed for want of a peer
    failed = (worker for worker in workers if worker.failed)
    min(failed, key=lambda w: (w.peer_error, w.error is not None, w.failed_at)).raise_it()


class _Ear:
    """Hears what the workers of one job say, and holds their meetings."""

    def __init__(
        self,
        workers: list[_Worker],
        on_message: Callable[[int, Message], None],
        on_meeting: Callable[[str, list[int]], bool],
    ) -> None:
        self._workers, self._on_message, self._on_meeting = workers, on_message, on_meeting
        self._waiting: Counter[str] = Counter()

    def hear(self, worker: _Worker) -> bool:
        """Read what there is; False once the worker has closed its end, its status then known."""
        chunk = os.read(worker.pipe, 1 << 20)
        if not chunk:  # what is left unread is half a message of a killed worker
            worker.status = _status(worker.pid)
            worker.failed_at = worker.failed_at or time.monotonic()
            return False
        *lines, worker.unread = (worker.unread + chunk).split(b"\n")
        for line in lines:
            self._take(worker, json.loads(line))
        return True

    def _take(self, worker: _Worker, message: Message) -> None:
        if "result" in message:
            worker.result = message["result"]
        elif "error" in message:
            worker.error, worker.peer_error = message["error"], message["peer"]
            worker.refused, worker.command = message["refused"], message["command"]
            worker.failed_at = message["at"]
        elif "meet" in message:
            self._waiting[message["meet"]] += 1
            if self._waiting[message["meet"]] == len(self._workers):
                del self._waiting[message["meet"]]  # the same name may be met at again
                self._hold(message["meet"])
        else:
            self._on_message(worker.rank, message)

    def _hold(self, meeting: str) -> None:
        """Hold a meeting; one of which somebody died while it waited is left to the listener."""
        if any(worker.failed for worker in self._workers):
            return
        with suppress(ProcessLookupError, BrokenPipeError):
            again = self._on_meeting(meeting, [worker.pid for worker in self._workers])
            for worker in self._workers:
                os.write(worker.release, _AGAIN if again else _ON)


def _tail(log: Path) -> list[str]:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return [line[:_LOG_LINE_LENGTH] for line in lines[-_LOG_LINES:]]


def cpu_s(pid: int) -> float:
    """Return the CPU time that a process has used, in seconds; 0 if it is gone."""
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


def end_with_parent() -> None:
    """End this process if the one that started it is gone.

    Raises:
        SystemExit: it is.
    """
    if os.getppid() != _PARENT[0]:
        raise SystemExit("the process that started this cell is gone")


def _descriptors(workers: list[_Worker]) -> list[int]:
    return [descriptor for worker in workers for descriptor in (worker.pipe, worker.release)]


def _status(pid: int) -> int:
    """Wait for the end of a worker; return its exit code, or minus the signal that ended it.

    Its number stays taken, and with it that of its group.
    """
    ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert ended is not None  # only with WNOHANG  # noqa: S101
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


def _end(workers: list[_Worker]) -> None:
    for descriptor in _descriptors(workers):
        os.close(descriptor)
    launcher = psutil.Process()
    own = launcher.children()  # workers, a reaper, a controller
    started = [process for process in launcher.children(recursive=True) if process not in own]
    for worker in workers:
        os.killpg(worker.pid, signal.SIGKILL)
        os.waitpid(worker.pid, 0)
    _kill(started)


def _kill(started: list[psutil.Process]) -> None:
    for process in started:
        with suppress(psutil.NoSuchProcess):
            process.kill()

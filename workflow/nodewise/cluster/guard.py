"""Guard process: kills the workers of a launcher when the launcher ends, whatever the cause.

Workers cannot end by themselves, because a duty cycle may have stopped them.
"""

import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.util import get_temp_dir

import psutil

from nodewise.cluster import cgroup, leftovers
from nodewise.cluster.child import end_with_parent, start_apart

_PARENT = os.getppid()  # read at import, because the parent may be gone later
_GONE_WITHIN_S = 10.0
_LOOK_EVERY_S, STOPPED_S = 1.0, 30.0
_STOPPED = "nodewise: stopped for half a minute (Ctrl-Z or SIGSTOP), which spoils a measurement"
_ENDED = b"ended\n"


def end_with_starter() -> None:
    """Have the kernel end this process by SIGTERM when the process that started it ends.

    Raises:
        SystemExit: that process is gone already.
    """
    end_with_parent(signal.SIGTERM)
    if os.getppid() != _PARENT:
        raise SystemExit("the process that started this cell is gone")


@contextmanager
def guarded(limit_s: float) -> Iterator[Callable[[int], None]]:
    """Run a guard during the block; yield a function that registers the pid of a worker.

    At the end of the block, the registered workers and what they started have ended. If this
    process is killed, the guard kills them. The guard also kills this process if it is stopped for
    STOPPED_S seconds or if the block takes longer than `limit_s`. What killed runs left behind is
    removed at the start.
    """
    end_with_starter()
    cgroup.remove_stale()
    leftovers.remove_unclaimed()
    launcher, folder = os.getpid(), get_temp_dir()  # of multiprocessing
    leftovers.claim(folder)
    reading, writing = os.pipe()

    def watch() -> None:
        os.close(writing)
        _watch(launcher, reading, limit_s, folder)

    guard = start_apart(watch)
    os.close(reading)
    workers: list[int] = []

    def register(pid: int) -> None:
        workers.append(pid)
        with suppress(BrokenPipeError):  # somebody has killed the guard
            os.write(writing, f"{pid}\n".encode())

    try:
        yield register
    finally:
        try:
            kill_all(workers)
            with suppress(BrokenPipeError):
                os.write(writing, _ENDED)
        finally:  # the guard kills the workers if an impatient user interrupted this process
            os.close(writing)
            os.waitpid(guard, 0)


def _watch(launcher: int, reading: int, limit_s: float, folder: str) -> None:
    """Wait for the launcher's end, then kill its workers and remove what it left behind.

    Args:
        launcher: pid of the launcher.
        reading: read end of the pipe by which the launcher sends the pids of its workers.
        limit_s: seconds after which the launcher is killed.
        folder: temporary folder of the launcher.
    """
    ran_at = now = time.monotonic()
    deadline, received, starter = now + limit_s, b"", _of(launcher, "ppid")
    while now < deadline and os.getppid() == launcher:
        if _of(launcher, "ppid") != starter:  # it got SIGTERM, but may be waiting for an import
            deadline = min(deadline, now + _GONE_WITHIN_S)
        if _of(launcher, "status") != psutil.STATUS_STOPPED:
            ran_at = now
        elif now > ran_at + STOPPED_S:
            with suppress(OSError):  # on a host, nobody may read it
                print(_STOPPED, file=sys.stderr, flush=True)
            break
        if select.select([reading], [], [], min(_LOOK_EVERY_S, deadline - now))[0]:
            chunk = os.read(reading, 1 << 16)
            received += chunk
            if not chunk or received.endswith(_ENDED):
                break
        now = time.monotonic()
    if not received.endswith(_ENDED):
        if os.getppid() == launcher:
            os.kill(launcher, signal.SIGKILL)
        kill_all([int(pid) for pid in received.split()])
        cgroup.remove_stale(launcher)
        shutil.rmtree(folder, ignore_errors=True)


def kill_all(workers: Sequence[int]) -> None:
    """Kill workers, their process groups and all that they started; wait until they have ended."""
    family: list[psutil.Process] = []
    for pid in workers:
        with suppress(psutil.NoSuchProcess):
            worker = psutil.Process(pid)
            family += [worker, *worker.children(recursive=True)]
        with suppress(ProcessLookupError):  # the worker may not have created its group yet
            os.killpg(pid, signal.SIGKILL)
    for process in family:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    deadline = time.monotonic() + _GONE_WITHIN_S
    ended = (psutil.STATUS_ZOMBIE, None)  # a zombie waits for its parent
    while (
        any(_of(one.pid, "status") not in ended for one in family) and time.monotonic() < deadline
    ):
        time.sleep(0.01)


def _of(pid: int, fact: str) -> object:
    """Return what psutil says of a process, such as its `status`; None if it is gone."""
    with suppress(psutil.NoSuchProcess):
        return getattr(psutil.Process(pid), fact)()
    return None

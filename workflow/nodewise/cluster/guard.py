"""Guard process: kills the workers of a launcher when the launcher ends, whatever the cause.

Workers cannot end by themselves, because a duty cycle may have stopped them.
"""

import os
import select
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.util import get_temp_dir

import psutil

from nodewise.cluster.child import start_apart

_PARENT = os.getppid()  # read at import, because the parent may be gone later
_GONE_WITHIN_S = 10.0
_LOOK_EVERY_S = 1.0
_ENDED = b"ended\n"


def end_with_parent() -> None:
    """Exit if the process that started this one is gone.

    Raises:
        SystemExit: the parent process is gone.
    """
    if os.getppid() != _PARENT:
        raise SystemExit("the process that started this cell is gone")


@contextmanager
def guarded(limit_s: float) -> Iterator[Callable[[int], None]]:
    """Run a guard during the block; yield a function that registers the pid of a worker.

    At the end of the block, the registered workers and what they started have ended. If this
    process is killed, the guard kills them. The guard also ends this process, which may be waiting
    for an import and not notice, if its parent ends or the block takes longer than `limit_s`.
    """
    folder = get_temp_dir()  # of multiprocessing, which is left behind after a kill
    launcher, parent = os.getpid(), os.getppid()
    reading, writing = os.pipe()

    def watch() -> None:
        os.close(writing)
        _watch(launcher, parent, reading, limit_s, folder)

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


def _watch(launcher: int, parent: int, reading: int, limit_s: float, folder: str) -> None:
    """Wait for the launcher's end, then kill its workers and remove its temporary folder.

    Args:
        launcher: pid of the launcher.
        parent: pid of its parent.
        reading: read end of the pipe by which the launcher sends the pids of its workers.
        limit_s: seconds after which the launcher is killed.
        folder: temporary folder of the launcher.
    """
    deadline, received, orphaned = time.monotonic() + limit_s, b"", False
    while (left := deadline - time.monotonic()) > 0 and os.getppid() == launcher:
        if not orphaned and _is_orphaned(launcher, parent):
            orphaned, deadline = True, min(deadline, time.monotonic() + _GONE_WITHIN_S)
            os.kill(launcher, signal.SIGTERM)
        if select.select([reading], [], [], min(_LOOK_EVERY_S, left))[0]:
            chunk = os.read(reading, 1 << 16)
            received += chunk
            if not chunk or received.endswith(_ENDED):
                break
    if not received.endswith(_ENDED):
        if os.getppid() == launcher:
            os.kill(launcher, signal.SIGKILL)
        kill_all([int(pid) for pid in received.split()])
        shutil.rmtree(folder, ignore_errors=True)


def _is_orphaned(launcher: int, parent: int) -> bool:
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(launcher).ppid() != parent
    return False


def kill_all(workers: Sequence[int]) -> None:
    """Kill workers, their process groups and all that they started; wait until they have ended."""
    family: list[psutil.Process] = []
    for pid in workers:
        with suppress(psutil.NoSuchProcess):
            worker = psutil.Process(pid)
            family += [worker, *worker.children(recursive=True)]
    for pid in workers:
        with suppress(ProcessLookupError):  # the worker may not have created its group yet
            os.killpg(pid, signal.SIGKILL)
    for process in family:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    deadline = time.monotonic() + _GONE_WITHIN_S
    while any(map(_runs, family)) and time.monotonic() < deadline:
        time.sleep(0.01)


def _runs(process: psutil.Process) -> bool:
    """Return whether a process is running. A zombie, which waits for its parent, is not."""
    with suppress(psutil.NoSuchProcess):
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False

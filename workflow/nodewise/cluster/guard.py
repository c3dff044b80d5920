"""A guard: a process that waits for the end of a launcher and then kills its workers.

Workers could not end by themselves: a duty cycle may have stopped them.
"""

import os
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.util import get_temp_dir
from pathlib import Path
from typing import NoReturn

import psutil

from nodewise.cluster import memory

OnKilled = Callable[[int], None]

_PARENT = os.getppid()  # read when this module is loaded: later it may be another process already
_GONE_WITHIN_S = 10.0
_LOOK_EVERY_S = 1.0  # at the launcher's memory
_LONGEST_PATH = 107 - len("/pymp-12345678/listener-12345678")


def end_with_parent() -> None:
    """End this process if the one that started it is gone.

    Raises:
        SystemExit: it is.
    """
    if os.getppid() != _PARENT:
        raise SystemExit("the process that started this cell is gone")


@contextmanager
def guarded(limit_s: float, on_out_of_memory: OnKilled) -> Iterator[Callable[[int], None]]:
    """Yield a function that takes the pid of a worker, which then ends with this process.

    This process is ended if its parent ends: it may be waiting for an import and not see that
    itself. It is killed if the block takes longer than `limit_s`. If the kernel kills it because
    memory ran out, the guard calls `on_out_of_memory` with the bytes that it had used.
    """
    folder = _temporary_folder()
    launcher, parent = os.getpid(), os.getppid()
    reading, writing = os.pipe()
    guard = os.fork()
    if guard == 0:
        os.close(writing)
        _be_guard((launcher, parent), reading, limit_s, folder, on_out_of_memory)
    os.close(reading)

    def guard_too(pid: int) -> None:
        os.write(writing, f"{pid}\n".encode())

    try:
        yield guard_too
    finally:
        os.kill(guard, signal.SIGKILL)
        os.waitpid(guard, 0)
        os.close(writing)


def _temporary_folder() -> Path:
    """Return the folder of multiprocessing, which removes it unless it is killed.

    The address of a socket in it may not be longer than the kernel takes.
    """
    if len(tempfile.gettempdir()) > _LONGEST_PATH:
        tempfile.tempdir = "/tmp"  # noqa: S108
    return Path(get_temp_dir())


def _be_guard(
    watched: tuple[int, int], reading: int, limit_s: float, folder: Path, on_out_of_memory: OnKilled
) -> NoReturn:
    """Wait for the launcher's end, then kill its workers and remove its temporary folder.

    `watched` are the pids of the launcher and of its parent.
    """
    launcher, parent = watched
    try:
        os.setsid()  # a signal to the launcher's group is not for the guard
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        deadline, pids = time.monotonic() + limit_s, b""
        kills, used, orphaned = memory.kills(), 0, False
        while (left := deadline - time.monotonic()) > 0:
            used = max(used, memory.peak_bytes(launcher))
            if not orphaned and _is_orphaned(launcher, parent):
                orphaned, deadline = True, min(deadline, time.monotonic() + _GONE_WITHIN_S)
                os.kill(launcher, signal.SIGTERM)
            if not select.select([reading], [], [], min(_LOOK_EVERY_S, left))[0]:
                continue
            chunk = os.read(reading, 1 << 16)
            if not chunk:  # nobody is left to write
                if memory.kills() > kills:
                    on_out_of_memory(used)
                break
            pids += chunk
        if os.getppid() == launcher:
            os.kill(launcher, signal.SIGKILL)
        workers = [int(pid) for pid in pids.split()]
        for pid in workers:
            kill_group(pid)
        deadline = time.monotonic() + _GONE_WITHIN_S
        while any(map(_runs, workers)) and time.monotonic() < deadline:
            time.sleep(0.01)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os._exit(0)  # the launcher's exit handlers and buffers are not this process's


def _is_orphaned(launcher: int, parent: int) -> bool:
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(launcher).ppid() != parent
    return False


def _runs(pid: int) -> bool:
    """Return whether a process runs; one that has ended may wait for its parent to notice."""
    with suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    return False


def kill_group(pid: int) -> None:
    """Kill a worker and its process group, which it may not have made yet."""
    for kill in (os.killpg, os.kill):
        with suppress(ProcessLookupError):
            kill(pid, signal.SIGKILL)

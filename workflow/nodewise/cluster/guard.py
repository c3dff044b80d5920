"""Guard process: waits for the end of a launcher, then kills its workers.

Workers cannot end by themselves, because a duty cycle may have stopped them.
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

_PARENT = os.getppid()  # read at import, because the parent may be gone later
_GONE_WITHIN_S = 10.0
_LOOK_EVERY_S = 1.0  # seconds between two checks of the launcher's memory
_LONGEST_PATH = 107 - len("/pymp-12345678/listener-12345678")


def end_with_parent() -> None:
    """Exit if the process that started this one is gone.

    Raises:
        SystemExit: the parent process is gone.
    """
    if os.getppid() != _PARENT:
        raise SystemExit("the process that started this cell is gone")


@contextmanager
def guarded(limit_s: float, on_out_of_memory: OnKilled) -> Iterator[Callable[[int], None]]:
    """Run a guard during the block; yield a function that registers the pid of a worker.

    When this process ends, the guard kills the registered workers. The guard also:

    - terminates this process if its parent ends, because this process may be waiting for an import
      and not notice it;
    - kills this process if the block takes longer than `limit_s` seconds;
    - calls `on_out_of_memory`, with the bytes that this process had used, if the kernel kills it
      because memory ran out.
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
    """Return the temporary folder of multiprocessing, which is left behind after a kill.

    The kernel limits the length of the path of a socket. If the default place is too long for that,
    the folder is made in /tmp.
    """
    if len(tempfile.gettempdir()) > _LONGEST_PATH:
        tempfile.tempdir = "/tmp"  # noqa: S108
    return Path(get_temp_dir())


def _be_guard(
    watched: tuple[int, int], reading: int, limit_s: float, folder: Path, on_out_of_memory: OnKilled
) -> NoReturn:
    """Wait for the launcher's end, then kill its workers and remove its temporary folder.

    Args:
        watched: pids of the launcher and of its parent.
        reading: read end of the pipe by which the launcher sends the pids of its workers.
        limit_s: seconds after which the launcher is killed.
        folder: temporary folder of the launcher.
        on_out_of_memory: see `guarded`.
    """
    launcher, parent = watched
    try:
        os.setsid()  # so that signals to the launcher's process group do not reach the guard
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
            if not chunk:  # end of file: the launcher is gone
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
        os._exit(0)  # without the exit handlers and buffers inherited from the launcher


def _is_orphaned(launcher: int, parent: int) -> bool:
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(launcher).ppid() != parent
    return False


def _runs(pid: int) -> bool:
    """Return whether a process is running. A zombie, which waits for its parent, is not."""
    with suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    return False


def kill_group(pid: int) -> None:
    """Kill a worker and its process group, which the worker may not have created yet."""
    for kill in (os.killpg, os.kill):
        with suppress(ProcessLookupError):
            kill(pid, signal.SIGKILL)

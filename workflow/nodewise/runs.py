"""Which runs of the workflow are alive: Snakemake's own locks and its jobs do not know."""

import fcntl
import gc
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from nodewise.parents import end_with

_STARTED_BY = "NODEWISE_STARTED_BY"  # a process's number


def enter(folder: Path) -> BinaryIO:
    """Join the runs that are alive in `folder` (`.snakemake`), for as long as the result is open.

    If no other is alive, what Snakemake has locked there was locked by one that was killed and is
    set free; else the user would have to do so by hand.
    """
    folder.mkdir(exist_ok=True)
    alive = (folder / "nodewise.alive").open("ab")
    with suppress(OSError):  # another run is alive, or this file system has no locks
        fcntl.flock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for lock in (folder / "locks").glob("*.lock"):
            lock.unlink(missing_ok=True)
    with suppress(OSError):
        fcntl.flock(alive, fcntl.LOCK_SH)
    return alive


def take_jobs_along() -> None:
    """Have every command that this process runs end with it; to be called by the workflow."""
    os.environ[_STARTED_BY] = str(os.getpid())


def end_with_workflow() -> None:
    """Have the kernel end this process, by SIGTERM, when the workflow that started it is gone.

    Does nothing to one that no workflow started.

    Raises:
        SystemExit: it is gone already.
    """
    workflow = os.environ.pop(_STARTED_BY, None)
    if workflow is None:
        return
    if not end_with(int(workflow), signal.SIGTERM):
        raise SystemExit("the workflow that started this command is gone")


def do_without_pandas() -> None:
    """Have Snakemake import no pandas; to be called by the workflow before it declares a rule.

    It would take half a second to see that no rule's parameter is a table.
    """
    sys.modules.setdefault("pandas", None)  # type: ignore[arg-type] # None: is not to be found


def read_inputs_once() -> None:
    """Have Snakemake read each input once to note its checksum; to be called by the workflow.

    It would read a thousand records anew for each of the tables that are made of them.
    """
    from snakemake.io import _IOFile  # type: ignore[import-untyped] # here: for Snakemake alone

    checksum: Callable[..., Awaitable[str | None]] = _IOFile.checksum
    noted: dict[tuple[object, ...], str | None] = {}

    async def checksum_once(file: _IOFile, *how: object, **named: object) -> str | None:
        try:
            now = Path(file).stat()
        except OSError:
            return await checksum(file, *how, **named)
        asked = (str(file), now.st_mtime_ns, now.st_size, how, *named.items())
        if asked not in noted:
            noted[asked] = await checksum(file, *how, **named)
        return noted[asked]

    _IOFile.checksum = checksum_once


def end_at_once() -> None:
    """Have Snakemake end when it is done; to be called by the workflow then.

    It limits how many jobs start in a second, and ends when the last such second is over. Python
    would then look for garbage in all that was planned, for a third of a second.
    """
    gc.freeze()
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            thread.cancel()

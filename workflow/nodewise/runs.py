"""Which runs of the workflow are alive in this folder: Snakemake's own locks do not tell."""

import fcntl
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO


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

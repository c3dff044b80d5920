"""Temporary folders that the next run removes if the process that made them was killed.

Such a process holds a lock on a file in the folder, which the kernel releases when it ends.
"""

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

_LOCK = ".nodewise-lock"


def claim(folder: str) -> None:
    """Mark a folder in TMPDIR, which may be removed when this process and its forks have ended."""
    new = Path(folder, f"{_LOCK}.new")
    lock = os.open(new, os.O_CREAT | os.O_WRONLY)  # never closed
    fcntl.flock(lock, fcntl.LOCK_EX)
    new.rename(new.with_name(_LOCK))  # now `remove_unclaimed` sees it


def temporary_folder() -> "tempfile.TemporaryDirectory[str]":
    """Return a new temporary folder that this process claims."""
    folder = tempfile.TemporaryDirectory(prefix="nodewise-")
    claim(folder.name)
    return folder


def remove_unclaimed() -> None:
    """Remove this user's claimed folders whose processes have ended."""
    for file in Path(tempfile.gettempdir()).glob(f"*/{_LOCK}"):
        with suppress(OSError):  # also if it is locked
            if file.parent.lstat().st_uid == os.geteuid():
                with file.open() as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(file.parent)

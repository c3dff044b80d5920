"""Turn root into an ordinary user, as if an ordinary user had started this process."""

import ctypes
import os
import subprocess
import sys
import tempfile
from pathlib import Path

PR_SET_DUMPABLE = 4
CLONE_NEWNS = 0x20000


def ordinary_user(uid: int) -> None:
    _let_others_read_python()
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
    # Otherwise a process that changed its user may not write its own files in /proc.
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1)


def _let_others_read_python() -> None:
    """Make Python and the project accessible if they are in folders that only root may enter.

    Workers are started with this Python. The change is made in a mount namespace of this process,
    so that no other process sees it.
    """
    needed = {Path(sys.base_prefix), Path(sys.prefix), Path.cwd()}
    closed = {
        folder for path in needed for folder in path.parents if not folder.stat().st_mode & 0o001
    }
    if not closed:
        return
    ctypes.CDLL(None).unshare(CLONE_NEWNS)
    mount("--make-rprivate", "/")
    for folder in closed:
        inside = [path for path in needed if path.is_relative_to(folder)]
        kept = {path: Path(tempfile.mkdtemp()) for path in inside}
        for path, place in kept.items():
            mount("--bind", path, place)
        mount("-t", "tmpfs", "-o", "mode=755", "none", folder)
        for path, place in kept.items():
            path.mkdir(parents=True, exist_ok=True)
            mount("--move", place, path)
            place.rmdir()


def mount(*arguments: str | Path) -> None:
    subprocess.run(["mount", *arguments], check=True)

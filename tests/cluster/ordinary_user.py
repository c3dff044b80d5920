"""Run as a script, by root: run another script as an ordinary user.

python ordinary_user.py UID NAMESPACES SCRIPT ARGUMENTS...

NAMESPACES is how many namespaces of each kind the user may create, or "-" for as many as this
machine permits.
"""

import ctypes
import encodings.idna  # noqa: F401
import os
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

from nodewise.cluster import emulated  # noqa: F401

CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
PR_SET_DUMPABLE = 4


def become(uid: int) -> None:
    let_others_read_python()
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
    # Otherwise a process that changed its user may not write its own files in /proc.
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1)


def let_others_read_python() -> None:
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


def permit_namespaces(most: str) -> None:
    """Limit how many namespaces this process and its children may create.

    This imitates a machine on which an administrator has set these limits.
    """
    uid, gid = os.getuid(), os.getgid()
    ctypes.CDLL(None).unshare(CLONE_NEWUSER)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} {uid} 1"),
        ("gid_map", f"{gid} {gid} 1"),
    ):
        Path("/proc/self", name).write_text(text)
    for name in ("max_net_namespaces", "max_user_namespaces"):
        Path("/proc/sys/user", name).write_text(most)


if __name__ == "__main__":
    uid, namespaces, script = sys.argv[1:4]
    runpy.run_path(script)  # This imports all that the script needs but does not run its main part.
    become(int(uid))
    if namespaces != "-":
        permit_namespaces(namespaces)
    sys.argv[:] = sys.argv[3:]
    runpy.run_path(script, run_name="__main__")

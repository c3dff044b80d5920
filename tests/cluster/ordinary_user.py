"""Run as a script, by root: run another script as an ordinary user.

python ordinary_user.py UID NAMESPACES SCRIPT ARGUMENTS...

NAMESPACES is how many namespaces of each kind the user may create, or "-" for as many as this
machine permits.
"""

import ctypes
import encodings.idna  # noqa: F401
import os
import runpy
import sys
from pathlib import Path

import become

from nodewise.cluster import emulated  # noqa: F401

CLONE_NEWUSER = 0x10000000


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
    become.ordinary_user(int(uid))
    if namespaces != "-":
        permit_namespaces(namespaces)
    sys.argv[:] = sys.argv[3:]
    runpy.run_path(script, run_name="__main__")

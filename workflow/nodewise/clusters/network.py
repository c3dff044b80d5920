"""A network namespace of our own, so that no server of a cell listens beyond it.

TensorFlow's server binds to every interface; in a namespace that has only a loopback device that
is nobody else's business, and no port can be taken already. It vanishes with its last process.
"""

import ctypes
import fcntl
import os
import socket
import struct
from pathlib import Path

from nodewise.clusters.base import NotPermittedError

_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1


def enter_network_namespace() -> None:
    """Move this process, which must have one thread, into a network namespace with no device up.

    Raises:
        OSError: this process may not.
    """
    _unshare(_CLONE_NEWNET)


def enter_private_network() -> None:
    """Move this process into a fresh namespace with loopback up.

    Root needs nothing else; an ordinary user gets a user namespace in which only its own id exists.

    Raises:
        NotPermittedError: this machine permits no such namespace.
        RuntimeError: this process has more than one thread, which the kernel would not move along.
    """
    if len(list(Path("/proc/self/task").iterdir())) > 1:
        raise RuntimeError("a process with several threads cannot change its namespaces")
    try:
        _enter()
    except OSError as error:
        reason = f"{error.strerror}; run as root or permit user namespaces"
        raise NotPermittedError(reason) from error


def _enter() -> None:
    uid, gid = os.getuid(), os.getgid()
    _unshare(_CLONE_NEWNET if uid == 0 else _CLONE_NEWNET | _CLONE_NEWUSER)
    if uid != 0:
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{uid} {uid} 1"),
            ("gid_map", f"{gid} {gid} 1"),
        ):
            Path("/proc/self", name).write_text(text, encoding="utf-8")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(control, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | _IFF_UP))


def _unshare(flags: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(flags) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"no network namespace is permitted ({os.strerror(code)})")

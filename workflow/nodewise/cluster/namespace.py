"""Run a cell in its own network namespace, so that its servers cannot be reached from outside.

TensorFlow's server listens on every interface. In a namespace that has only a loopback device
nobody else can reach it, and no port is already in use. The namespace vanishes with its last
process.

If no namespace is permitted, cells are refused, unless an environment variable (SHARED_NETWORK)
permits the servers to listen on this machine's own interfaces.
"""

import ctypes
import os
from pathlib import Path

import psutil
from pyroute2 import IPRoute

from nodewise.cluster.api import FIRST_PORT
from nodewise.cluster.child import error_in_child
from nodewise.core.errors import RefusedError

SHARED_NETWORK = "NODEWISE_SHARED_NETWORK"  # environment variable; "yes" accepts open ports
NO_EMULATION = "loopback, no network emulation"  # description of such a network in records

RUN_AS_ROOT = 'sudo env "PATH=$PATH" snakemake --cores all'
RUN_PRIVILEGED = "docker run --privileged ..."

# Kernel settings (sysctl), the value that forbids users a namespace, and one that permits it.
_SWITCHES = (
    ("user.max_net_namespaces", "0", "10000"),
    ("user.max_user_namespaces", "0", "10000"),
    ("kernel.unprivileged_userns_clone", "0", "1"),
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
)

_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_FIRST_EPHEMERAL_PORT = 32768  # outgoing connections may take any port from here on


def enter_network_namespace() -> None:
    """Move this process into a new network namespace, in which no device is up.

    The process must have only one thread.

    Raises:
        RefusedError: this process is not allowed to.
    """
    try:
        _unshare(_CLONE_NEWNET)
    except OSError as error:
        raise _not_permitted("no network for a node", error) from error


def enter_private_network() -> None:
    """Move this process into a new network namespace with the loopback device up.

    For a user other than root this also creates a user namespace, in which the user is mapped to
    root. A program that is started there, such as the forkserver of the workers, keeps the right to
    create networks only if its user is root.

    Raises:
        RefusedError: this machine permits no such namespace.
        RuntimeError: this process has more than one thread. The kernel would not move the others.
    """
    if len(list(Path("/proc/self/task").iterdir())) > 1:
        raise RuntimeError("a process with several threads cannot change its namespaces")
    try:
        # tried in a child: if it fails halfway, it cannot be undone
        if code := error_in_child(_enter):
            raise OSError(code, os.strerror(code))
        _enter()
    except OSError as error:
        what = f"no private network ({SHARED_NETWORK}=yes accepts open ports instead)"
        raise _not_permitted(what, error) from error


def enter_network() -> bool:
    """Move this process into a private network, if one is permitted.

    Returns:
        True in a private network. False if none is permitted and NODEWISE_SHARED_NETWORK is "yes",
        which accepts that the workers' ports are open to everyone who can reach this machine.

    Raises:
        RefusedError: no private network is permitted, and NODEWISE_SHARED_NETWORK is not
            "yes".
    """
    try:
        enter_private_network()
    except RefusedError:
        if os.environ.get(SHARED_NETWORK) != "yes":
            raise
        return False
    return True


def free_ports(count: int) -> list[int]:
    """Return `count` ports that nothing uses now, from FIRST_PORT on; RefusedError if too few."""
    taken = {one.laddr.port for one in psutil.net_connections("inet") if one.laddr}
    free = [port for port in range(FIRST_PORT, _FIRST_EPHEMERAL_PORT) if port not in taken]
    if len(free) < count:
        raise RefusedError(f"fewer than {count} free ports")
    return free[:count]


def _not_permitted(what: str, error: OSError) -> RefusedError:
    """Return the refusal of a namespace, with a command that would permit it."""
    forbidden = {name: to for name, of, to in _SWITCHES if _sysctl(name) == of}
    if os.geteuid() and forbidden:
        reason = f"forbidden by {', '.join(forbidden)}"
        words = " ".join(f"{name}={value}" for name, value in forbidden.items())
        return RefusedError(f"{what}: {reason}", f"sudo sysctl {words}")
    command = RUN_AS_ROOT if os.geteuid() else RUN_PRIVILEGED
    return RefusedError(f"{what}: {os.strerror(error.errno or 0)}", command)


def _sysctl(name: str) -> str | None:
    try:
        return Path("/proc/sys", *name.split(".")).read_text(encoding="utf-8").strip()
    except OSError:  # this kernel has no such switch
        return None


def _enter() -> None:
    uid, gid = os.getuid(), os.getgid()
    _unshare(_CLONE_NEWNET if uid == 0 else _CLONE_NEWNET | _CLONE_NEWUSER)
    if uid != 0:
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"0 {uid} 1"),
            ("gid_map", f"{gid} {gid} 1"),
        ):
            Path("/proc/self", name).write_text(text, encoding="utf-8")
    with IPRoute() as links:
        links.link("set", index=links.link_lookup(ifname="lo")[0], state="up")


def _unshare(flags: int) -> None:
    # ctypes, because os.unshare needs Python 3.12
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(flags) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))

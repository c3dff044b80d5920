"""Check which kinds of cluster this machine permits, by trying each and cleaning up."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from nodewise.cluster import cgroup, namespace
from nodewise.cluster.api import NotPermittedError
from nodewise.cluster.duty_cycle import DutyCycle

_SYSTEMD = Path("/run/systemd/system")  # exists while systemd runs
_MANAGER = "/etc/systemd/system/user@.service.d"
_DELEGATE_TO_USERS = f"""\
sudo mkdir -p {_MANAGER}
printf '[Service]\\nDelegate=cpu cpuset memory pids\\n' |
  sudo tee {_MANAGER}/delegate.conf
sudo systemctl daemon-reload
sudo systemctl restart user@{{uid}}.service  # ends what runs in your sessions"""
_RUN_IN_USER_SCOPE = "systemd-run --user --scope -p Delegate=yes snakemake --cores all"
_RUN_IN_SCOPE = "systemd-run --scope -p Delegate=yes snakemake --cores all"


class Check(NamedTuple):
    """Result of a check.

    Args:
        permitted: whether it is permitted.
        remark: how it is done, or why it is not permitted.
        command: shell command that would permit it; empty if there is none.
    """

    permitted: bool
    remark: str
    command: str = ""


class Machine(NamedTuple):
    """What this machine permits for the nodes of a cell."""

    quota: Check  # CPU shares by cgroup
    soft: Check  # CPU shares by stopping and continuing processes
    private: Check  # a network that only the cell's own processes see
    links: Check  # a rate-limited link for each node in that network
    latency: Check  # latency on these links


def look() -> Machine:
    """Check everything. This process must have only one thread, because it forks."""
    private, links, latency = _networks()
    return Machine(_quota(), _soft(), private, links, latency)


def _quota() -> Check:
    try:
        return Check(True, f"by cgroup, in {cgroup.find_base()}")
    except OSError as error:
        return Check(False, str(error), command_for_quota(cgroup.find_hierarchy()))


def command_for_quota(tree: cgroup.Hierarchy | None) -> str:
    """Return the command that lets this user create CPU groups; empty if none is known."""
    uid = os.geteuid()
    if tree is None:
        return ""
    if os.statvfs(tree.mount).f_flag & os.ST_RDONLY:
        return namespace.RUN_PRIVILEGED
    if tree.version == 1:
        return f"sudo install -d -o {uid} {tree.mount / cgroup.DELEGATED}"
    if not _SYSTEMD.exists():
        enable = f"echo +cpu | sudo tee {tree.mount}/cgroup.subtree_control"
        return f"{enable}\n{namespace.RUN_AS_ROOT}"
    if uid and not cgroup.has_cpu(tree.mount / f"user.slice/user-{uid}.slice/user@{uid}.service"):
        return f"{_DELEGATE_TO_USERS.format(uid=uid)}\n{_RUN_IN_USER_SCOPE}"
    return _RUN_IN_USER_SCOPE if uid else _RUN_IN_SCOPE


def _soft() -> Check:
    try:
        with DutyCycle().held():
            return Check(True, "by stopping and continuing; refused where it does not hold")
    except (OSError, NotPermittedError) as error:
        return Check(False, str(error))


def _networks() -> list[Check]:
    """Check the private network, links in it and their latency.

    The child process that tries them takes them along when it ends.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            found = [_tried(trial) for trial in (_private, _links, _latency)]
            os.write(writing, json.dumps(found).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as answer:
        checks = [Check(*check) for check in json.load(answer)]
    os.waitpid(child, 0)
    return checks


def _tried(trial: Callable[[], str]) -> Check:
    try:
        return Check(True, trial())
    except NotPermittedError as error:
        return Check(False, str(error), error.command)


def _private() -> str:
    namespace.enter_private_network()
    return f"a network of its own, {'in a user namespace' if os.geteuid() else 'as root'}"


def _links() -> str:
    _lay(latency_ms=0)
    return "a namespace per node, a rate-limited link each, on one bridge"


def _latency() -> str:
    _lay(latency_ms=1)
    return "by netem"


def _lay(latency_ms: float) -> None:
    """Create one link in a new namespace and limit it."""
    from nodewise.cluster import links

    namespace.enter_private_network()
    rate_mbit = 100
    links.lay([os.getpid()])
    links.plug_in(links.address(0))
    links.limit(1, rate_mbit, latency_ms)
    links.limit_node(rate_mbit)

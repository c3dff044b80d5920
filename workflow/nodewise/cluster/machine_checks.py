"""Check which kinds of cluster this machine permits, by trying each and cleaning up."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nodewise.cluster import cgroup, duty_cycle, namespace
from nodewise.cluster.api import NotPermittedError

# Share of every core that emulated nodes leave to the launcher, their links and the machine.
_LEFT_FREE = 0.1
_FIRST_PIDS = "pid:[4026531836]"  # the kernel's fixed number of the initial pid namespace

_SYSTEMD = Path("/run/systemd/system")  # exists while systemd runs
_MANAGER = "/etc/systemd/system/user@.service.d"
_DELEGATE_TO_USERS = f"""\
sudo mkdir -p {_MANAGER}
printf '[Service]\\nDelegate=cpu cpuset memory pids\\n' |
  sudo tee {_MANAGER}/delegate.conf
sudo systemctl daemon-reload
sudo systemctl restart user@{{uid}}.service  # ends what runs in your sessions"""
_START_MANAGER = """\
sudo loginctl enable-linger {uid}
export XDG_RUNTIME_DIR=/run/user/{uid}"""
_RUN_IN_USER_SCOPE = "systemd-run --user --scope -p Delegate=yes snakemake --cores all"
_RUN_IN_SCOPE = "systemd-run --scope -p Delegate=yes snakemake --cores all"


@dataclass(frozen=True)
class Check:
    """Result of a check.

    Args:
        permitted: whether it is permitted.
        remark: how it is done, or why it is not permitted.
        command: shell command that would permit it; empty if there is none.
    """

    permitted: bool
    remark: str
    command: str = ""


@dataclass(frozen=True)
class Machine:
    """What this machine has and permits for the nodes of a cell."""

    cores: int
    quota: Check  # CPU shares by cgroup
    soft: Check  # CPU shares by stopping and continuing processes
    private: Check  # a network that only the cell's own processes see
    links: Check  # a rate-limited link for each node in that network
    latency: Check  # latency on these links
    sees_all: bool = True  # whether all processes of the machine are visible

    def most_nodes(self, cpu: float) -> int:
        """Return how many nodes the machine has room for.

        Args:
            cpu: share of a core of each node, at most 1. Nodes with a whole core may use all cores;
                others leave a tenth free.
        """
        usable = self.cores * (1 if cpu == 1 else 1 - _LEFT_FREE)
        return int(usable / cpu + 1e-9)


def look() -> Machine:
    """Check everything. This process must have only one thread, because it forks."""
    private, links, latency = _networks()
    return Machine(
        cores=cgroup.whole_cores(),
        quota=_quota(),
        soft=_soft(),
        private=private,
        links=links,
        latency=latency,
        sees_all=_sees_all(),
    )


def _sees_all() -> bool:
    """Return whether /proc shows all processes of the machine, of all users."""
    try:
        Path("/proc/1/stat").read_bytes()
        return str(Path("/proc/self/ns/pid").readlink()) == _FIRST_PIDS
    except OSError:
        return False


def _quota() -> Check:
    trees = cgroup.hierarchies()
    try:
        base = cgroup.find_base()
    except OSError as error:
        return Check(False, str(error), command_for_quota(trees))
    version = next(tree.version for tree in trees if base.is_relative_to(tree.mount))
    return Check(True, f"by cgroup, version {version}, in {base}")


def command_for_quota(trees: list[cgroup.Hierarchy]) -> str:
    """Return the command that lets this user create CPU groups; empty if none is known."""
    if not trees:
        return ""
    tree = trees[0]  # a controller is in one hierarchy only
    if os.statvfs(tree.mount).f_flag & os.ST_RDONLY:
        return namespace.RUN_PRIVILEGED
    if tree.version == 1:
        return f"sudo install -d -o {os.geteuid()} {tree.mount / cgroup.DELEGATED}"
    if _SYSTEMD.exists():
        return _RUN_IN_SCOPE if os.geteuid() == 0 else _command_for_user(tree.mount, os.geteuid())
    return f"{_command_without_systemd(tree.mount)}\n{namespace.RUN_AS_ROOT}"


def _command_without_systemd(mount: Path) -> str:
    """Return the commands that enable the CPU controller below the topmost group (version 2)."""
    if not (mount / "cgroup.type").exists():  # the real root group, which may have processes
        return f"echo +cpu | sudo tee {mount}/cgroup.subtree_control"
    return f"""\
sudo mkdir -p {mount}/others
for pid in $(cat {mount}/cgroup.procs); do
  echo $pid | sudo tee {mount}/others/cgroup.procs
done
echo +cpu | sudo tee {mount}/cgroup.subtree_control"""


def _command_for_user(mount: Path, uid: int) -> str:
    """Return the commands by which systemd delegates a group to user `uid` (version 2)."""
    manager = mount / f"user.slice/user-{uid}.slice/user@{uid}.service"
    if not manager.exists():
        return f"{_START_MANAGER.format(uid=uid)}\n{_RUN_IN_USER_SCOPE}"
    if not cgroup.has_cpu(manager):
        return f"{_DELEGATE_TO_USERS.format(uid=uid)}\n{_RUN_IN_USER_SCOPE}"
    return _RUN_IN_USER_SCOPE


def _soft() -> Check:
    try:
        with duty_cycle.made(duty_cycle.DutyCycle()):
            pass
    except (OSError, NotPermittedError) as error:
        return Check(False, str(error))
    return Check(True, "by stopping and continuing; refused where it does not hold")


def _networks() -> tuple[Check, Check, Check]:
    """Check the private network, links in it and their latency.

    The child process that tries them takes them along when it ends.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            for trial in (_private, _links, _latency):
                os.write(writing, json.dumps(_tried(trial)).encode() + b"\n")
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as lines:
        found = [Check(*json.loads(line)) for line in lines]
    os.waitpid(child, 0)
    if len(found) < 3:
        raise RuntimeError("the process that tried the network ended early")
    private, links, latency = found
    return private, links, latency


def _tried(trial: Callable[[], str]) -> tuple[bool, str, str]:
    try:
        return True, trial(), ""
    except NotPermittedError as error:
        return False, str(error), error.command


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
    links.limit_ports(1, rate_mbit, latency_ms)
    links.limit_node(rate_mbit)

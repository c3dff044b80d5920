"""Check which kinds of cluster this machine permits, and which hosts of a cluster can be used."""

import json
import os
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from nodewise.cluster import cgroup, leftovers, namespace
from nodewise.cluster.duty_cycle import DutyCycle
from nodewise.cluster.hosts import Hosts, HostWorker, differences
from nodewise.core.errors import RefusedError


class Check(NamedTuple):
    """Whether something is permitted, how or why not, and the command that would permit it."""

    permitted: bool
    remark: str
    command: str = ""


def look() -> dict[str, Check]:
    """Try everything and clean up. This process must have only one thread, because it forks.

    The networks are tried in a child process, which takes them along when it ends.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            tried = [_try(trial) for trial in (_private, _links, _latency)]
            os.write(writing, json.dumps(tried).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as answer:
        private, links, latency = (Check(*check) for check in json.load(answer))
    os.waitpid(child, 0)
    shares = {"quota": _try(_quota), "soft": _try(_soft)}
    return {**shares, "private": private, "links": links, "latency": latency}


def _try(trial: Callable[[], str]) -> Check:
    try:
        return Check(True, trial())
    except RefusedError as error:
        return Check(False, error.reason, error.command)


def _quota() -> str:
    try:
        return f"by cgroup, in {cgroup.find_base()}"
    except OSError as error:
        tree = cgroup.find_hierarchy()
        if tree is None or os.statvfs(tree.mount).f_flag & os.ST_RDONLY:
            command = namespace.RUN_PRIVILEGED
        elif tree.version == 1:
            command = namespace.RUN_AS_ROOT
        else:
            of_user = "--user " if os.geteuid() else ""
            command = f"systemd-run {of_user}--scope -p Delegate=yes snakemake --cores all"
        raise RefusedError(str(error), command) from error


def _soft() -> str:
    with DutyCycle().held():
        return "by stopping and continuing; refused where it does not hold"


def _private() -> str:
    how = "in a user namespace" if os.geteuid() else "as root"  # inside, every user is root
    namespace.enter_private_network()
    return f"a network of its own, {how}"


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
    links.lay([os.getpid()])
    links.plug_in(links.address(0))
    links.limit(1, 100, latency_ms)
    links.limit_node(100)


def report(machine: Mapping[str, Check]) -> str:
    """Return a table of the kinds of cluster, with the commands that would permit the others."""
    private = machine["private"]
    if not private.permitted and os.environ.get(namespace.SHARED_NETWORK) == "yes":
        private = Check(True, f"{namespace.NO_EMULATION} ({namespace.SHARED_NETWORK}=yes)")
    kinds = {
        "local": private,
        "emulated by quota": machine["quota"] if private.permitted else private,
        "emulated softly": machine["soft"] if private.permitted else private,
        "network emulation": machine["links"],
        "latency of links": machine["latency"],
    }
    cores = cgroup.whole_cores()
    lines = [f"cores: {cores}, kernel: {os.uname().sysname} {os.uname().release}", ""]
    lines += [f"{'kind of cluster':21}here how, or why not"]
    for name, check in kinds.items():
        first = f"{name:21}{'yes' if check.permitted else 'no':5}"
        indent = " " * len(first)
        lines += textwrap.wrap(check.remark, 80, initial_indent=first, subsequent_indent=indent)
        if check.command:
            lines += [f"{indent}To allow it, run:", f"    {check.command}"]
    return "\n".join(lines)


def examine(hosts: Hosts) -> Iterator[tuple[str, bool]]:
    """Start an agent on each host; yield lines about it, and whether each is a problem."""
    with hosts.open(), leftovers.temporary_folder() as logs:
        for rank in range(hosts.size):
            try:
                hosts.prepare(rank, [])
                with closing(HostWorker(hosts, rank, Path(logs, str(rank)), {}, {})) as agent:
                    hello = agent.hello()
            except RefusedError as error:
                yield str(error), True
                continue
            label, cores = hosts.label(rank), f"{hello['cores']} cores, {hello['load']:.1f} busy"
            free = f"{hello['memory_bytes'] / 1e9:.1f} GB of memory"
            free += f" and {hello['disk_bytes'] / 1e9:.1f} GB of disk are free"
            yield f"{label}: {cores}; {free}", False
            for difference in differences(hello):
                yield f"{label}: {difference}; run there: {hosts.setup}", True

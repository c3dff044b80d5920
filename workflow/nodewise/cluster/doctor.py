"""Report which kinds of cluster this machine permits, and how to permit the others."""

import os
import textwrap
from collections.abc import Iterator
from pathlib import Path

from nodewise.cluster import cgroup, namespace
from nodewise.cluster.machine_checks import Check, Machine

WIDTH = 80
_KIND, _YES_NO = 21, 5  # columns
_LEFT_FREE = 0.1  # share of every core for the launcher, the links and the machine
_FIRST_PIDS = "pid:[4026531836]"  # the kernel's fixed number of the initial pid namespace
_UNSEEN = (
    "Other processes of this machine are not visible from here, as is usual in a container. So a"
    " measurement does not notice other load, and a study outside the container does not wait for"
    " one inside. Measure while nothing else runs."
)
_OPEN_PORTS = (
    "Without a private network cells are refused, because while they train the workers' ports"
    " would be open to everyone who can reach this machine. To accept this, set"
    f" {namespace.SHARED_NETWORK}=yes in the environment. Records then say"
    f' "{namespace.NO_EMULATION}".'
)


def report(machine: Machine, cpu: float) -> str:
    """Return a table of the kinds of cluster, then the commands that would permit the others.

    Args:
        machine: results of the checks.
        cpu: share of a core of an emulated node; the table says for how many of these there is
            room. A tenth of the cores is left free.
    """
    kinds = _kinds(machine, cpu)
    cores = cgroup.whole_cores()
    lines = [f"cores: {cores}, kernel: {os.uname().sysname} {os.uname().release}", ""]
    lines += _row("kind of cluster", "here", "how, or why not")
    for name, check in kinds.items():
        lines += _row(name, "yes" if check.permitted else "no", check.remark)
    refused = {name: check for name, check in kinds.items() if not check.permitted}
    for command in dict.fromkeys(check.command for check in refused.values()):
        names = ", ".join(name for name, check in refused.items() if check.command == command)
        lines.append("")
        if command:
            lines += [f"To permit {names}:", textwrap.indent(command, "    ")]
        else:
            lines.append(f"No command permits {names} here.")
    if not machine.private.permitted:
        lines += ["", *textwrap.wrap(_OPEN_PORTS, WIDTH)]
    if not _sees_all():
        lines += ["", *textwrap.wrap(_UNSEEN, WIDTH)]
    return "\n".join(lines)


def _kinds(machine: Machine, cpu: float) -> dict[str, Check]:
    cores, connected = cgroup.whole_cores(), machine.private
    if not connected.permitted and os.environ.get(namespace.SHARED_NETWORK) == "yes":
        connected = Check(True, f"{namespace.NO_EMULATION} ({namespace.SHARED_NETWORK}=yes)")

    def nodes(limiter: Check) -> Check:
        if not limiter.permitted or not connected.permitted:
            return connected if limiter.permitted else limiter
        most = int(cores * (1 if cpu == 1 else 1 - _LEFT_FREE) / cpu + 1e-9)
        return Check(True, f"{limiter.remark}; n up to {most} with {cpu:g} of a core each")

    local = Check(True, f"n up to {cores}, one core each; {connected.remark}")
    return {
        "local": local if connected.permitted else connected,
        "emulated by quota": nodes(machine.quota),
        "emulated softly": nodes(machine.soft),
        "network emulation": machine.links,
        "latency of links": machine.latency,
    }


def _row(kind: str, here: str, remark: str) -> Iterator[str]:
    indent = " " * (_KIND + _YES_NO)
    first, *others = textwrap.wrap(remark, WIDTH - len(indent))
    yield f"{kind:{_KIND}}{here:{_YES_NO}}{first}"
    yield from (indent + line for line in others)


def _sees_all() -> bool:
    """Return whether /proc shows all processes of the machine, of all users."""
    try:
        Path("/proc/1/stat").read_bytes()
        return str(Path("/proc/self/ns/pid").readlink()) == _FIRST_PIDS
    except OSError:
        return False

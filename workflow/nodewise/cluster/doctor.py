"""Report which kinds of cluster this machine permits, and how to permit the others."""

import os
import textwrap
from collections.abc import Iterator

from nodewise.cluster import namespace
from nodewise.cluster.machine_checks import Check, Machine

WIDTH = 80
_KIND, _YES_NO = 21, 5  # columns
_INDENT = "    "
_UNSEEN = (
    "Other processes of this machine are not visible from here, as is usual in a container. So a"
    " measurement does not notice other load, and a study outside the container does not wait for"
    " one inside. Measure while nothing else runs."
)


def report(machine: Machine, cpu: float) -> str:
    """Return a table of the kinds of cluster, then the commands that would permit the others.

    Args:
        machine: results of the checks.
        cpu: share of a core of an emulated node; the table says for how many of these there is
            room.
    """
    kinds = _kinds(machine, cpu)
    lines = [f"cores: {machine.cores}, kernel: {os.uname().sysname} {os.uname().release}", ""]
    lines += _row("kind of cluster", "here", "how, or why not")
    for name, check in kinds.items():
        lines += _row(name, "yes" if check.permitted else "no", check.remark)
    lines += _remedies({name: kind for name, kind in kinds.items() if not kind.permitted})
    if not machine.private.permitted:
        lines += ["", *textwrap.wrap(_open_ports(), WIDTH)]
    if not machine.sees_all:
        lines += ["", *textwrap.wrap(_UNSEEN, WIDTH)]
    return "\n".join(lines)


def _kinds(machine: Machine, cpu: float) -> dict[str, Check]:
    shared = os.environ.get(namespace.SHARED_NETWORK) == "yes"
    connected = (
        Check(True, f"{namespace.NO_EMULATION} ({namespace.SHARED_NETWORK}=yes)")
        if shared and not machine.private.permitted
        else machine.private
    )
    fits = f"n up to {machine.most_nodes(cpu)} with {cpu:g} of a core each"
    own_core = f"n up to {machine.cores}, one core each; {connected.remark}"
    return {
        "local": Check(True, own_core) if connected.permitted else connected,
        "emulated by quota": _limited(machine.quota, connected, fits),
        "emulated softly": _limited(machine.soft, connected, fits),
        "network emulation": machine.links,
        "latency of links": machine.latency,
    }


def _limited(limiter: Check, connected: Check, fits: str) -> Check:
    """Return whether nodes with a share of a core are permitted.

    Args:
        limiter: whether CPU shares can be enforced.
        connected: whether nodes can be connected.
        fits: text that says how many nodes there is room for.
    """
    if not limiter.permitted:
        return limiter
    return Check(True, f"{limiter.remark}; {fits}") if connected.permitted else connected


def _row(kind: str, here: str, remark: str) -> Iterator[str]:
    indent = " " * (_KIND + _YES_NO)
    first, *others = textwrap.wrap(remark, WIDTH - len(indent))
    yield f"{kind:{_KIND}}{here:{_YES_NO}}{first}"
    yield from (indent + line for line in others)


def _remedies(refused: dict[str, Check]) -> Iterator[str]:
    """Yield each command once, below the kinds that it would permit. Commands are not wrapped."""
    for command in dict.fromkeys(check.command for check in refused.values()):
        names = ", ".join(name for name, check in refused.items() if check.command == command)
        yield ""
        if command:
            yield f"To permit {names}:"
            yield textwrap.indent(command, _INDENT)
        else:
            yield f"No command permits {names} here."


def _open_ports() -> str:
    return (
        "Without a private network cells are refused, because while they train the workers' ports"
        " would be open to everyone who can reach this machine. To accept this, set"
        f" {namespace.SHARED_NETWORK}=yes in the environment. Records then say"
        f' "{namespace.NO_EMULATION}".'
    )

"""Settings of nodes that are hosts reached by SSH."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from nodewise.cluster.host_settings import HostSettings
from nodewise.core.cell import CLUSTERS, MAX_NODES, Cell, Frozen, Line
from nodewise.core.units import counted

if TYPE_CHECKING:
    from nodewise.cluster.hosts import Hosts


def _is_a_host(name: str) -> str:
    """Check that a text is a host's name or address; it must not look like an option of `ssh`."""
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,252}", name):
        raise ValueError(f"{name!r:.80} is not allowed, must be a host's name or address")
    return name


HostName = Annotated[str, AfterValidator(_is_a_host)]


def _with_labels(hosts: object) -> object:
    """Accept plain names as hosts, and add labels to hosts that have none."""
    if not isinstance(hosts, list):
        return hosts
    entries = ({"host": host} if isinstance(host, str) else host for host in hosts)
    return [
        {"label": f"node{number}"} | entry if isinstance(entry, dict) else entry
        for number, entry in enumerate(entries, 1)
    ]


class Host(Frozen):
    """One host. Records contain its `label` only.

    Args:
        host: argument of `ssh`: a name, which may be one of `~/.ssh/config`, or USER@NAME.
        address: name or address by which the other hosts reach it; by default, what `ssh`
            connects to.
        label: its name in records and messages; by default node1, node2, … in order.
    """

    host: HostName = Field(default="", exclude=True)
    address: HostName = Field(default="", exclude=True)
    label: Line = Field(max_length=40)


class Ssh(HostSettings):
    """Hosts reached by SSH, in the order in which they are used.

    The OpenSSH client connects to them, so `~/.ssh/config`, the SSH agent and known hosts apply.

    Args:
        folder: the project's folder on the hosts, absolute or relative to the home folder there.
        config: file that the client reads instead of `~/.ssh/config`.
    """

    kind: Literal["ssh"] = "ssh"
    hosts: Annotated[list[Host], BeforeValidator(_with_labels)] = Field(
        min_length=1, max_length=MAX_NODES
    )
    name: Line = Field(default="SSH hosts", max_length=60)
    folder: Line = Field(default="nodewise", exclude=True)
    config: Path | None = Field(default=None, exclude=True, strict=False)

    @model_validator(mode="after")
    def _hosts_differ(self) -> "Ssh":
        hosts = [host.host for host in self.hosts if host.host]
        if len(set(hosts)) < len(hosts):
            raise ValueError("hosts: each host may be there once")
        if len({host.label for host in self.hosts}) < len(self.hosts):
            raise ValueError("hosts: each label may be there once")
        return self

    def check_nodes(self, cells: Sequence[Cell]) -> None:
        most = max(cell.processes for cell in cells)
        places = self.known_hosts * self.devices_per_node
        if most > places:
            room = counted(places, "worker")
            raise ValueError(f"hosts: there is room for {room}, not for {most}, servers included")

    @property
    def known_hosts(self) -> int:
        return len(self.hosts)

    def take(self, nodes: int) -> "Hosts":
        from nodewise.cluster import ssh

        return ssh.SshHosts(nodes, self)


CLUSTERS.add("ssh", Ssh)

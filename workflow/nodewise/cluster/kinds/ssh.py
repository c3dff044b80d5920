"""Hosts that are reached by SSH."""

import re
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from nodewise.cluster import api
from nodewise.core.cell import CLUSTERS, MAX_NODES, Cell, Frozen, Line


def _is_a_host(name: str) -> str:
    """Allow what OpenSSH and the network take as one host, and nothing that starts an option."""
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,252}", name):
        raise ValueError(f"{name!r:.80} is not allowed, must be a host's name or address")
    return name


HostName = Annotated[str, AfterValidator(_is_a_host)]


def _with_labels(hosts: object) -> object:
    """Let a host be just its name, and give labels to those without."""
    if not isinstance(hosts, list):
        return hosts
    entries = ({"host": host} if isinstance(host, str) else host for host in hosts)
    return [
        {"label": f"node{number}"} | entry if isinstance(entry, dict) else entry
        for number, entry in enumerate(entries, 1)
    ]


class Host(Frozen):
    """One host. Records name it by its `label` only.

    Args:
        host: what `ssh` is called with: a name, also one of `~/.ssh/config`, or USER@NAME.
        address: what the other hosts reach it by; by default, what ssh connects to.
        label: what records and messages call it; by default node1, node2, … in their order.
    """

    host: HostName = Field(default="", exclude=True)
    address: HostName = Field(default="", exclude=True)
    label: Line = Field(max_length=40)


class Ssh(api.Settings):
    """Hosts that are reached by SSH, one node each, in the order in which they are used.

    The OpenSSH client connects, so that `~/.ssh/config`, its agent and known hosts apply.

    Args:
        name: what records and charts call this cluster. Curves of two clusters are never mixed.
        folder: the project's folder on the hosts, below the home folder there or absolute.
        python: the Python with the project's environment, seen from `folder`.
        ports: first and last of the ports that workers listen on.
        config: a file for the client to read instead of `~/.ssh/config`.
    """

    kind: Literal["ssh"] = "ssh"
    hosts: Annotated[list[Host], BeforeValidator(_with_labels)] = Field(
        min_length=1, max_length=MAX_NODES
    )
    name: Line = Field(default="SSH hosts", max_length=60)
    folder: Line = Field(default="nodewise", exclude=True)
    python: Line = Field(default=".venv/bin/python", exclude=True)
    ports: list[Annotated[int, Field(ge=1024, le=65_535)]] = Field(
        default=[30_000, 30_999], min_length=2, max_length=2, exclude=True
    )
    config: Path | None = Field(default=None, exclude=True, strict=False)

    @model_validator(mode="after")
    def _hosts_differ(self) -> "Ssh":
        hosts = [host.host for host in self.hosts if host.host]
        if len(set(hosts)) < len(hosts):
            raise ValueError("hosts: each host may be there once")
        if len({host.label for host in self.hosts}) < len(self.hosts):
            raise ValueError("hosts: each label may be there once")
        if self.ports[1] - self.ports[0] + 1 < len(self.hosts):
            raise ValueError("ports: must be first and last of at least one port per host")
        return self

    @property
    def label(self) -> str:
        return self.name

    def cores(self, nodes: int) -> float:  # none of this machine
        return 0.0

    def check_nodes(self, most: int, one_process: Collection[str]) -> None:
        if most > len(self.hosts) and not one_process:
            raise ValueError(f"hosts: {most} nodes need {most} hosts, there are {len(self.hosts)}")

    def cluster(self, cell: Cell) -> api.Cluster:
        from nodewise.cluster import ssh

        return ssh.SshHosts(cell.processes, self)


CLUSTERS.add("ssh", Ssh)

"""Settings that all kinds of cluster with other hosts as nodes have in common."""

from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from nodewise.cluster import api
from nodewise.core.cell import Cell, Line

if TYPE_CHECKING:
    from nodewise.cluster.hosts import Hosts


class HostSettings(api.LinkedSettings):
    """Settings of a cluster of other hosts.

    Records leave out the settings that only say how hosts are reached.

    Args:
        name: name of the cluster in records and charts. Curves of different clusters are never
            mixed.
        python: path of the Python with the project's environment, relative to the project's folder
            on the hosts.
        ports: first and last of the ports that workers may listen on.
    """

    name: Line = Field(default="hosts", max_length=60)
    python: Line = Field(default=".venv/bin/python", exclude=True)
    ports: list[Annotated[int, Field(ge=1024, le=65_535)]] = Field(
        default=[30_000, 30_999], min_length=2, max_length=2, exclude=True
    )

    @property
    def label(self) -> str:
        each = self.devices_per_node
        return f"{self.name}, {each} workers on each" if each > 1 else self.name

    def cores(self, nodes: int) -> float:  # the nodes use no cores of this machine
        return 0.0

    @property
    @abstractmethod
    def known_hosts(self) -> int:
        """Number of hosts in the cluster."""

    @abstractmethod
    def take(self, nodes: int) -> "Hosts":
        """Return a cluster for `nodes` workers, not yet opened."""

    def cluster(self, cell: Cell) -> api.Cluster:
        return self.take(cell.processes)

"""What the kinds of clusters whose nodes are other hosts have in common."""

from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from nodewise.cluster import api
from nodewise.core.cell import Cell, Line

if TYPE_CHECKING:
    from nodewise.cluster.hosts import Hosts


class HostSettings(api.LinkedSettings):
    """Settings of hosts. Records have none of what only says how they are reached.

    Args:
        name: what records and charts call this cluster. Curves of two clusters are never mixed.
        python: the Python with the project's environment, seen from the project's folder there.
        ports: first and last of the ports that workers listen on.
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

    def cores(self, nodes: int) -> float:  # none of this machine
        return 0.0

    def check_ports(self, workers: int) -> None:
        """Check that there is a port for each worker.

        Raises:
            ValueError: there is not.
        """
        first, last = self.ports
        if last - first + 1 < workers:
            raise ValueError(f"ports: must be first and last of at least {workers} ports")

    @property
    @abstractmethod
    def known_hosts(self) -> int:
        """How many hosts there are."""

    @abstractmethod
    def take(self, nodes: int) -> "Hosts":
        """Return places for `nodes` workers, not yet opened."""

    def all_hosts(self) -> "Hosts":
        """Return all hosts, with one place on each, for `nodewise doctor`."""
        return self.calibrated().take(self.known_hosts)

    def cluster(self, cell: Cell) -> api.Cluster:
        return self.take(cell.processes)

"""Settings of nodes that are emulated machines on this machine."""

from collections.abc import Sequence
from typing import Literal, Self

from pydantic import Field, model_validator

from nodewise.cluster import api
from nodewise.core.cell import CLUSTERS, MAX_NODES, Cell, Frozen


class Node(Frozen):
    """An emulated node. `cpu` is its share of one core of this machine."""

    cpu: float = Field(default=0.2, ge=0.01, le=1)


class SlowNode(Frozen):
    """A straggler: one training node with a smaller share of a core than the others."""

    rank: int = Field(default=0, ge=0, lt=MAX_NODES)
    cpu: float = Field(ge=0.01, le=1)


class Link(Frozen):
    """The link of an emulated node: its rate in each direction and its one-way latency."""

    # the limit is the kernel's: it takes the rate as a 32-bit number of bytes per second
    rate_mbit: float = Field(default=100, ge=1, le=34_000)
    latency_ms: float = Field(default=0, ge=0, le=10_000)


class Emulated(api.LinkedSettings):
    """Emulated machines, each with a CPU quota and a rate-limited link.

    If `devices_per_node` is more than 1, each node of a study is one worker, and that many workers
    are on one emulated machine. Each worker has the share `node.cpu`. Links between workers of a
    machine are not limited. Together they share their machine's one link to the other machines.
    """

    kind: Literal["emulated"] = "emulated"
    node: Node = Node()
    slow_node: SlowNode | None = None
    link: Link = Link()

    @model_validator(mode="after")
    def _slow_is_slower(self) -> Self:
        if self.slow_node is not None and self.slow_node.cpu >= self.node.cpu:
            raise ValueError(f"slow_node.cpu: must be less than {self.node.cpu:g}, the others' cpu")
        return self

    @property
    def share(self) -> float:
        return self.node.cpu

    @property
    def label(self) -> str:
        one = self.slow_node
        slow = f" (node {one.rank}: {one.cpu:g} core)" if one else ""
        latency = f", {self.link.latency_ms:g} ms" if self.link.latency_ms else ""
        each = self.devices_per_node
        inside = f", {each} workers in each machine" if each > 1 else ""
        return f"{self.node.cpu:g} core{slow}, {self.link.rate_mbit:g} Mbit/s{latency}{inside}"

    @property
    def link_bit_s(self) -> float:
        return self.link.rate_mbit * 1e6

    @property
    def latency_s(self) -> float:
        return self.link.latency_ms / 1e3

    def cpu_of(self, rank: int) -> float:
        """Return the share of a core of node `rank`."""
        slow = self.slow_node
        return slow.cpu if slow is not None and slow.rank == rank else self.node.cpu

    def cores(self, nodes: int) -> float:
        return sum(self.cpu_of(rank) for rank in range(nodes))

    def for_nodes(self, nodes: int) -> Self:
        """Return the settings without the slow node if it is not among the `nodes` that train."""
        if self.slow_node is None or self.slow_node.rank < nodes:
            return self
        return self.model_copy(update={"slow_node": None})

    def check_nodes(self, cells: Sequence[Cell]) -> None:
        if self.slow_node is None:
            return
        if self.slow_node.rank >= (most := max(cell.nodes for cell in cells)):
            raise ValueError(f"slow_node.rank: must be less than {most}, the most nodes")
        for cell in cells:
            if cell.one_process:
                raise ValueError(f"slow_node: {cell.strategy} is one process, with equal devices")

    def calibrated(self) -> Self:
        """Return the settings without a slow node and with one worker on each machine."""
        return super().calibrated().model_copy(update={"slow_node": None})

    def take(self, nodes: int) -> api.Cluster:
        from nodewise.cluster import emulated

        return emulated.EmulatedNodes(nodes, self)

    def cluster(self, cell: Cell) -> api.Cluster:
        settings = self.for_nodes(cell.nodes)
        if cell.one_process:  # one machine with the cores of all its devices
            node = self.node.model_copy(update={"cpu": self.node.cpu * cell.nodes})
            settings = settings.model_copy(update={"node": node})
        return settings.take(cell.processes)


CLUSTERS.add("emulated", Emulated)

"""Interface of a cluster: the nodes on which the workers of one cell run."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Self

from pydantic import Field

from nodewise.core.cell import MOST_PER_MACHINE, Cell, ClusterSettings
from nodewise.results.record import Kind, NodeUsage

FIRST_PORT = 2222
NO_GPU = "-1"
"""Value of CUDA_VISIBLE_DEVICES that hides all GPUs from TensorFlow."""


def parsed(address: str) -> tuple[str, int]:
    """Split `host:port` into host and port."""
    host, _, port = address.rpartition(":")
    return host, int(port)


class Cluster(ABC):
    """The nodes of one cell. One worker runs on each."""

    kind: Kind
    network: str  # describes the network in one line of the record; set by `open`
    cpu_limit: str  # describes the CPU limit in one line of the record; set by `open`
    remote = False  # whether the workers run on other hosts, see `hosts.Hosts`
    shares: Sequence[float] = ()  # share of a core by rank; empty if the nodes are not limited
    threads = 1  # per worker, because a node of this machine is one core or a part of one
    gpus = NO_GPU  # none by default, because all nodes of this machine would share its GPU

    @abstractmethod
    def open(self) -> AbstractContextManager[None]:
        """Set up the cluster in the launcher; undo everything when the block ends.

        Enter it before TensorFlow is imported.

        Raises:
            RefusedError: this machine does not permit such a cluster.
        """

    @abstractmethod
    def addresses(self) -> list[str]:
        """Return the address `host:port` of each worker's server, by rank."""

    def label(self, rank: int) -> str:
        """Return the name of the node of `rank` in records and messages."""
        return f"node{rank + 1}"

    def enter_node(self, rank: int) -> None:
        """Move this process, worker `rank`, into its node. Called before anything else."""

    def connect(self, pids: Sequence[int]) -> None:
        """Connect the nodes. Called in the launcher when all workers are in their nodes."""

    def join(self, rank: int) -> None:
        """Bring up the network in worker `rank`. Called when the nodes are connected."""

    def limit_link(self, rank: int) -> None:
        """Limit the worker's own end of its link to the rate from now on.

        Called in worker `rank` when it is warm. `apply_limits` limits the other end.
        """

    def apply_limits(self) -> None:
        """Limit the nodes to their CPU share and link rate.

        Called in the launcher when all workers are warm.
        """

    def lift_limits(self) -> None:
        """Lift the CPU limits of the nodes. Called in the launcher when timing has ended."""

    def check(self) -> None:
        """Check that the nodes are held to their limits.

        Called in the launcher several times a second.

        Raises:
            RefusedError: this machine cannot hold them to their limits.
        """

    def usage(self) -> list[NodeUsage]:
        """Return what each node has used so far, by rank; empty if it is not counted.

        Called in the launcher.
        """
        return []


class Settings(ClusterSettings):
    """Settings of one kind of cluster. Each kind registers its class in CLUSTERS.

    The module of the class must be quick to import, because everything that reads records imports
    it.
    """

    @abstractmethod
    def cluster(self, cell: Cell) -> Cluster:
        """Return the cluster for `cell`, not yet opened."""


class LinkedSettings(Settings):
    """Settings of a kind of cluster whose links `nodewise calibrate` measures.

    Args:
        devices_per_node: number of workers that share a machine and its link to the other machines.
            If it is more than 1, each node of a study is one worker.
    """

    devices_per_node: int = Field(default=1, ge=1, le=MOST_PER_MACHINE)

    @property
    def per_machine(self) -> int:
        return self.devices_per_node

    def with_per_machine(self, nodes: int) -> Self:
        return self.model_copy(update={"devices_per_node": nodes})

    def calibrated(self) -> Self:
        """Return these settings with one worker on each machine, and all machines alike."""
        return self.with_per_machine(1)

    @abstractmethod
    def take(self, nodes: int) -> Cluster:
        """Return a cluster of the first `nodes` nodes, not yet opened."""

"""What a cluster offers: nodes for the workers of one cell, and a certain end."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pydantic import Field

from nodewise.cluster import lock
from nodewise.core.cell import MOST_PER_MACHINE, Cell, ClusterSettings
from nodewise.results.measurement import NodeUsage
from nodewise.results.record import Kind

if TYPE_CHECKING:
    from nodewise.cluster.channel import Channel, Message

FIRST_PORT = 2222
NO_GPU = "-1"
"""As CUDA_VISIBLE_DEVICES: TensorFlow sees none."""


def parsed(address: str) -> tuple[str, int]:
    """Return host and port of `host:port`."""
    host, _, port = address.rpartition(":")
    return host, int(port)


class NotPermittedError(Exception):
    """This machine does not permit such a cluster: the text says why.

    `command` is what would permit it, for a person to run; empty if no command would.
    """

    def __init__(self, reason: str, command: str = "") -> None:
        super().__init__(reason)
        self.command = command

    @property
    def whole(self) -> str:
        """The text and the command, for a record."""
        return f"{self}; what would permit it: {self.command}" if self.command else str(self)


class Cluster(ABC):
    """The nodes of one cell. One worker runs on each."""

    kind: Kind
    network: str  # one line for the record, known once the cluster is open
    cpu_limit: str  # likewise
    remote = False  # whether workers run on other hosts: see relay
    shares: Sequence[float] = ()  # of a core, by rank; none if the nodes are not limited
    threads = 1  # that a worker computes with: a node of this machine is a core or part of one
    gpus = NO_GPU  # that a worker sees: all nodes would share one of this machine

    def to_itself(self, on_wait: Callable[[], None]) -> AbstractContextManager[float]:
        """Yield the seconds waited once no other cell is measured on these nodes, before `open`.

        Others wait until the block ends. `on_wait` is called once if there is someone to wait for.
        """
        return lock.to_itself(on_wait)

    @abstractmethod
    def open(self) -> AbstractContextManager[None]:
        """Enter what the launcher needs, before TensorFlow is imported; undo all of it after.

        Raises:
            NotPermittedError: this machine does not permit it.
        """

    @abstractmethod
    def addresses(self) -> list[str]:
        """Return `host:port` of every rank's server."""

    def label(self, rank: int) -> str:
        """Return what records and messages call the node of `rank`."""
        return f"node{rank + 1}"

    def relay(
        self,
        rank: int,
        channel: "Channel",
        job: "Message",
        *,
        files: Sequence[Path],
        environment: Mapping[str, str],
    ) -> "Message":
        """In a process of this machine, if the cluster is remote: have worker `rank` do `job`.

        This process passes messages on until it is killed.

        Args:
            rank: of the worker.
            channel: between this process and the launcher.
            job: the cell, the dataset's manifest and the weights, as JSON.
            files: files and folders of the project that the worker needs beside the code.
            environment: variables of the worker.

        Raises:
            RefusedError, NotPermittedError: the host cannot be used.
        """
        raise NotImplementedError

    def enter_node(self, rank: int) -> None:
        """In worker `rank`, first of all: move into its node."""

    def connect(self, pids: Sequence[int]) -> None:
        """In the launcher, when all workers are in their nodes: connect the nodes."""

    def join(self, rank: int) -> None:
        """In worker `rank`, when the nodes are connected: use the connection."""

    def limit_link(self, rank: int) -> None:
        """In worker `rank`, when it is warm: hold its own end of its link to the rate from now on.

        The launcher limits the other end, in `throttle`.
        """

    def throttle(self) -> None:
        """In the launcher, when all workers are warm: hold the nodes to their share and rate."""

    def unleash(self) -> None:
        """In the launcher, when nothing more is timed: let the nodes run freely."""

    def check(self) -> None:
        """In the launcher, several times a second: see that the nodes are what they should be.

        Raises:
            NotPermittedError: this machine turns out not to manage it.
        """

    def usage(self) -> list[NodeUsage]:
        """In the launcher: return what each node has used so far; none if nothing counts it."""
        return []


class Settings(ClusterSettings):
    """Settings of a kind of cluster. A kind registers its class in CLUSTERS.

    Its module imports nothing that takes time: all that reads records imports it.
    """

    @abstractmethod
    def cluster(self, cell: Cell) -> Cluster:
        """Return the nodes of `cell`, not yet opened."""


class LinkedSettings(Settings):
    """Settings of a kind of cluster whose links `nodewise calibrate` measures.

    Args:
        devices_per_node: how many workers share a machine and its link to the others. The nodes of
            a study are workers then.
    """

    devices_per_node: int = Field(default=1, ge=1, le=MOST_PER_MACHINE)

    @property
    def per_machine(self) -> int:
        return self.devices_per_node

    def with_per_machine(self, nodes: int) -> Self:
        return self.model_copy(update={"devices_per_node": nodes})

    def calibrated(self) -> Self:
        """Return the settings with one worker on each machine, all alike."""
        return self.with_per_machine(1)

    @abstractmethod
    def take(self, nodes: int) -> Cluster:
        """Return the first `nodes` nodes of `calibrated` settings, not yet opened."""

"""Nodes that behave like machines: a CPU quota and a rate-limited link each, on one bridge.

A node with the share q of a core and a link of rate r is a one-core node with a link of rate r / q,
seen in slow motion: everything takes 1 / q times as long, computing and communicating alike.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from nodewise.cells import Emulated as Settings
from nodewise.clusters import base, cgroups, network, wires


class Emulated(base.Cluster):
    """`nodes` emulated machines."""

    kind = "emulated"

    def __init__(self, nodes: int, settings: Settings) -> None:
        self._nodes, self._settings = nodes, settings
        self.network = f"a namespace per node on one bridge, {settings.link.rate_mbit:g} Mbit/s"

    @contextmanager
    def open(self) -> Iterator[None]:
        try:
            folder = cgroups.find_base()
        except OSError as error:
            raise base.NotPermittedError(str(error)) from error
        network.enter_private_network()
        cgroups.remove_stale(folder)
        self._groups = cgroups.CpuGroups(folder, self._nodes)
        with cgroups.made(self._groups):
            yield

    def addresses(self) -> list[str]:
        return [f"{wires.address(rank)}:{base.FIRST_PORT}" for rank in range(self._nodes)]

    def enter_node(self, rank: int) -> None:
        network.enter_network_namespace()

    def connect(self, pids: Sequence[int]) -> None:
        for rank, pid in enumerate(pids):
            self._groups.put(rank, pid)
        wires.lay(pids, self._settings.link.rate_mbit)

    def join(self, rank: int) -> None:
        wires.plug_in(wires.address(rank), self._settings.link.rate_mbit)

    def throttle(self) -> None:
        for rank in range(self._nodes):
            self._groups.limit(rank, self._settings.node.cpu)

    def unleash(self) -> None:
        for rank in range(self._nodes):
            self._groups.limit(rank, None)

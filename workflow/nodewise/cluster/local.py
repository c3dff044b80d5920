"""Nodes that are processes of this machine: one core each, connected by loopback, not emulated."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nodewise.cluster import api, namespace


class LocalProcesses(api.Cluster):
    """A cluster of `nodes` processes on this machine.

    Each node has `cores` cores: 1, or more if it stands for several devices. Nodes share cores if
    there are too few.
    """

    kind = "measured"
    network = "loopback in a namespace of its own"
    cpu_limit = "one core per node, in turns if there are fewer"

    def __init__(self, nodes: int, cores: int = 1) -> None:
        self._nodes, self._cores = nodes, cores

    @contextmanager
    def open(self) -> Iterator[None]:
        if not namespace.enter_network():
            self.network = namespace.NO_EMULATION
        self._ports = namespace.free_ports(self._nodes)
        yield

    def addresses(self) -> list[str]:
        return [f"127.0.0.1:{port}" for port in self._ports]

    def enter_node(self, rank: int) -> None:
        """Pin the node to its cores, so that a node is equally fast for every number of nodes."""
        cores = _cores()
        first = rank * self._cores
        mine = {cores[core % len(cores)] for core in range(first, first + self._cores)}
        os.sched_setaffinity(0, mine)


def _cores() -> list[int]:
    """Return the cores that this process may use. Further hardware threads of a core come last."""

    def place(core: int) -> tuple[int, int]:
        threads = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")
        try:
            first = re.split("[-,]", threads.read_text(encoding="utf-8").strip())[0]
        except OSError:  # this machine does not say which threads share a core
            return 0, core
        return int(int(first) != core), core

    return sorted(os.sched_getaffinity(0), key=place)

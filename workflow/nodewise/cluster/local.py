"""Nodes that are processes: one core each, loopback between them, no emulation."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nodewise.cluster import api, namespace


class Local(api.Cluster):
    """`nodes` processes on this machine; with more nodes than cores they share cores.

    A node has one core, or `cores` if it stands for as many devices.
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
        """Take its cores, so that a node is the same machine for every number of nodes."""
        cores = _cores()
        first = rank * self._cores
        mine = {cores[core % len(cores)] for core in range(first, first + self._cores)}
        os.sched_setaffinity(0, mine)


def _cores() -> list[int]:
    """Return the cores that this process may use; second threads of one come last."""

    def place(core: int) -> tuple[int, int]:
        threads = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")
        try:
            first = re.split("[-,]", threads.read_text(encoding="utf-8").strip())[0]
        except OSError:  # a machine that does not tell
            return 0, core
        return int(int(first) != core), core

    return sorted(os.sched_getaffinity(0), key=place)

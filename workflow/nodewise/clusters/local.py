"""Nodes that are processes: one core each, loopback between them, no emulation."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from nodewise.clusters import base
from nodewise.clusters.network import enter_private_network


class Local(base.Cluster):
    """`nodes` processes on this machine; with more nodes than cores they share cores."""

    kind = "measured"
    network = "loopback in a namespace of its own"

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes

    @contextmanager
    def open(self) -> Iterator[None]:
        enter_private_network()
        yield

    def addresses(self) -> list[str]:
        return [f"127.0.0.1:{base.FIRST_PORT + rank}" for rank in range(self._nodes)]

    def enter_node(self, rank: int) -> None:
        """Take one core, so that a node is the same machine for every number of nodes."""
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[rank % len(cores)]})

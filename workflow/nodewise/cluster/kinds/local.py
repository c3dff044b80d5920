"""Settings of nodes that are processes of this machine."""

from typing import Literal

from nodewise.cluster import api
from nodewise.core.cell import CLUSTERS, Cell


class Local(api.Settings):
    """Nodes are processes of this machine. Each has its own core as long as there are enough."""

    kind: Literal["local"] = "local"

    def cluster(self, cell: Cell) -> api.Cluster:
        from nodewise.cluster import local

        return local.LocalProcesses(cell.processes, cell.nodes if cell.one_process else 1)


CLUSTERS.add("local", Local)

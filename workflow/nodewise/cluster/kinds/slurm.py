"""Settings of nodes that belong to a Slurm allocation."""

import os
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from nodewise.cluster.host_settings import HostSettings
from nodewise.core.cell import CLUSTERS, Line

if TYPE_CHECKING:
    from nodewise.cluster.hosts import Hosts


class Slurm(HostSettings):
    """The nodes of the Slurm allocation in which the study runs, in Slurm's order."""

    kind: Literal["slurm"] = "slurm"
    name: Line = Field(default="Slurm cluster", max_length=60)

    @property
    def known_hosts(self) -> int:
        return int(os.environ.get("SLURM_JOB_NUM_NODES", "1"))

    def take(self, nodes: int) -> "Hosts":
        from nodewise.cluster import slurm

        return slurm.Allocation(nodes, self)


CLUSTERS.add("slurm", Slurm)

"""The nodes of a Slurm allocation."""

import os
from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from nodewise.cluster import api
from nodewise.cluster.host_settings import HostSettings
from nodewise.core.cell import CLUSTERS, MAX_NODES, Cell, Line

if TYPE_CHECKING:
    from nodewise.cluster.hosts import Hosts


class Slurm(HostSettings):
    """The nodes of the Slurm allocation in which the study runs, in the order of their names."""

    kind: Literal["slurm"] = "slurm"
    name: Line = Field(default="Slurm cluster", max_length=60)

    @model_validator(mode="after")
    def _enough_ports(self) -> "Slurm":
        self.check_ports(MAX_NODES)
        return self

    def cluster(self, cell: Cell) -> api.Cluster:
        from nodewise.cluster import slurm

        return slurm.Allocation(cell.processes, self)

    def all_hosts(self) -> "Hosts":
        from nodewise.cluster import slurm

        one_each = self.model_copy(update={"devices_per_node": 1})
        return slurm.Allocation(int(os.environ.get("SLURM_JOB_NUM_NODES", "1")), one_each)


CLUSTERS.add("slurm", Slurm)

"""The nodes of a Slurm allocation."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from nodewise.cluster import api
from nodewise.core.cell import CLUSTERS, MAX_NODES, Cell, Line


class Slurm(api.Settings):
    """The nodes of the Slurm allocation in which the study runs, in the order of their names.

    Args:
        name: what records and charts call this cluster. Curves of two clusters are never mixed.
        python: the Python with the project's environment, seen from the project's folder, which
            all nodes share.
        ports: first and last of the ports that workers listen on.
    """

    kind: Literal["slurm"] = "slurm"
    name: Line = Field(default="Slurm cluster", max_length=60)
    python: Line = Field(default=".venv/bin/python", exclude=True)
    ports: list[Annotated[int, Field(ge=1024, le=65_535)]] = Field(
        default=[30_000, 30_999], min_length=2, max_length=2, exclude=True
    )

    @model_validator(mode="after")
    def _enough_ports(self) -> "Slurm":
        if self.ports[1] - self.ports[0] + 1 < MAX_NODES:
            raise ValueError(f"ports: must be first and last of at least {MAX_NODES} ports")
        return self

    @property
    def label(self) -> str:
        return self.name

    def cores(self, nodes: int) -> float:  # none of this machine
        return 0.0

    def cluster(self, cell: Cell) -> api.Cluster:
        from nodewise.cluster import slurm

        return slurm.Allocation(cell.processes, self)


CLUSTERS.add("slurm", Slurm)

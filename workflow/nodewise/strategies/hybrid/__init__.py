"""Hybrid parallelism: groups of nodes form pipelines, which share the global batch."""

from pydantic import Field

from nodewise.core.cell import MAX_NODES
from nodewise.core.exchanges import ACTIVATIONS
from nodewise.strategies.declaration import STRATEGIES, Declaration
from nodewise.strategies.options import Pipelined


class Hybrid(Pipelined):
    """Options of hybrid parallelism.

    Attributes:
        groups: the number of pipelines. The nodes of each are its stages.
    """

    groups: int = Field(default=2, ge=1, le=MAX_NODES)

    @property
    def pipelines(self) -> int:
        return self.groups

    def check(self, nodes: int) -> None:
        if nodes % self.groups:
            allowed = ", ".join(str(n) for n in range(1, nodes + 1) if nodes % n == 0)
            raise ValueError(
                f"options.groups: must divide {nodes}, the nodes: {allowed}; not {self.groups}"
            )


STRATEGIES.add(
    "hybrid",
    Declaration(
        module=__name__,
        title="Hybrid parallelism, pipelines in data parallel",
        max_nodes=64,
        exchange=ACTIVATIONS,
        needs="a model that can be cut; a node count divisible by the number of groups",
        options=Hybrid,
        whole_batches=True,
        splits_model=True,
    ),
)

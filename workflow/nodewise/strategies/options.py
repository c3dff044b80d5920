"""Options that several strategies share. This module must not import TensorFlow."""

from pydantic import Field

from nodewise.core.cell import MAX_BATCH, MAX_NODES, Extent
from nodewise.models.facts import facts
from nodewise.strategies.declaration import Options


class Served(Options):
    """Options of strategies with parameter servers.

    Attributes:
        servers: the number of servers; each holds a part of the parameters.
    """

    servers: int = Field(default=1, ge=1, le=MAX_NODES)

    @property
    def server_nodes(self) -> int:
        return self.servers

    def check(self, nodes: int) -> None:
        if self.servers > nodes:
            raise ValueError(f"options.servers: at most {nodes}, the nodes; not {self.servers}")


class Pipelined(Options):
    """Options of pipelines.

    Attributes:
        micro_batches: the number of micro-batches that the examples of a step are split into. Their
            sizes differ by at most one example. With 1, only one stage works at a time.
    """

    micro_batches: int = Field(default=1, ge=1, le=MAX_BATCH)

    @property
    def pipelines(self) -> int:
        """The number of parallel pipelines.

        All have the same number of nodes, and each trains a part of every batch.
        """
        return 1

    def check_training(self, nodes: int, batch: int, model: str | None, extent: Extent) -> None:
        examples = batch * nodes // self.pipelines
        if self.micro_batches > examples:
            raise ValueError(
                f"options.micro_batches: at most {examples}, what a pipeline has of a step with "
                f"batch {batch} on {nodes} nodes; not {self.micro_batches}"
            )
        stages = None if model is None else facts(model).stages
        if stages is not None and nodes > stages * self.pipelines:
            raise ValueError(
                f"nodes: at most {stages * self.pipelines} for {model}, which can be cut into "
                f"{stages} stages; not {nodes}"
            )

"""Options that several strategies have in common. No TensorFlow here."""

from pydantic import Field

from nodewise.core.cell import MAX_BATCH, MAX_NODES
from nodewise.models.facts import facts
from nodewise.strategies.declaration import Options

UNKNOWN_CUTS = "The formula needs a, the bytes of an example at a cut, which records do not hold."


class Served(Options):
    """Of strategies with parameter servers: how many, of which each has a part."""

    servers: int = Field(default=1, ge=1, le=MAX_NODES)

    @property
    def server_nodes(self) -> int:
        return self.servers

    def check(self, nodes: int) -> None:
        if self.servers > nodes:
            raise ValueError(f"options.servers: at most {nodes}, the nodes; not {self.servers}")


class Pipelined(Options):
    """Of a pipeline: into how many micro-batches the examples of a step are cut; 1 is no pipeline.

    They differ by one example at most.
    """

    micro_batches: int = Field(default=1, ge=1, le=MAX_BATCH)

    @property
    def pipelines(self) -> int:
        """Pipelines side by side, each with as many nodes, and a part of every batch."""
        return 1

    def check_training(self, nodes: int, batch: int, model: str | None) -> None:
        examples = batch * nodes // self.pipelines
        if self.micro_batches > examples:
            raise ValueError(
                f"options.micro_batches: at most {examples}, what a pipeline has of a step with "
                f"batch {batch} on {nodes} nodes; not {self.micro_batches}"
            )
        if model is not None and nodes > facts(model).stages * self.pipelines:
            stages = facts(model).stages
            raise ValueError(
                f"nodes: at most {stages * self.pipelines} for {model}, which can be cut into "
                f"{stages} stages; not {nodes}"
            )

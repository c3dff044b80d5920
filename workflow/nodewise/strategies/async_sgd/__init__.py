"""Asynchronous SGD: each worker's gradient is applied when it arrives at a server."""

from pydantic import Field

from nodewise.core.exchanges import SERVER
from nodewise.strategies.declaration import STRATEGIES, Declaration
from nodewise.strategies.options import Served


class AsyncSgd(Served):
    """Options of asynchronous SGD: how staleness is handled.

    Attributes:
        scale_by_staleness: divide the learning rate of a gradient by its staleness, if above 1.
        updates: the number of gradients that the servers gather and apply as one update, their
            mean. None applies each gradient by itself.
        bound: the largest number of steps that a worker may be ahead of the slowest one; a worker
            that is further ahead waits. None is no limit.
    """

    scale_by_staleness: bool = False
    updates: int | None = None
    bound: int | None = Field(default=None, ge=0)

    def check(self, nodes: int) -> None:
        super().check(nodes)
        if self.updates is None or 1 < self.updates < nodes:
            return
        if nodes < 3:
            raise ValueError(f"options.updates: only with 3 or more nodes, not {nodes}")
        raise ValueError(f"options.updates: allowed: 2 to {nodes - 1}, not {self.updates}")


STRATEGIES.add(
    "async_sgd",
    Declaration(
        module=__name__,
        title="Asynchronous SGD, parameter server",
        max_nodes=64,
        exchange=SERVER,
        needs="extra nodes as servers",
        options=AsyncSgd,
    ),
)

"""TensorFlow's ParameterServerStrategy: workers train with servers that hold the weights."""

from pydantic import Field

from nodewise.core.cell import MAX_NODES
from nodewise.strategies.bytes_sent import gradient
from nodewise.strategies.declaration import STRATEGIES, Declaration, Facts, Options


class Served(Options):
    """Of strategies with parameter servers: how many, of which each has a part."""

    servers: int = Field(default=1, ge=1, le=MAX_NODES)

    @property
    def server_nodes(self) -> int:
        return self.servers

    def check(self, nodes: int) -> None:
        if self.servers > nodes:
            raise ValueError(f"options.servers: at most {nodes}, the nodes; not {self.servers}")


STRATEGIES.add(
    "parameter_server",
    Declaration(
        module=__name__,
        title="ParameterServerStrategy",
        max_nodes=64,
        exchange="server",
        facts=Facts(
            synchronous="no",
            holds="one or more servers",
            sends="S; a server n · S/p",
            needs="extra nodes as servers",
        ),
        bytes_sent=gradient,
        options=Served,
    ),
)

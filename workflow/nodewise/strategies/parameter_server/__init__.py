"""TensorFlow's ParameterServerStrategy: workers train with servers that hold the weights."""

from nodewise.strategies.bytes_sent import gradient
from nodewise.strategies.declaration import STRATEGIES, Declaration, Facts
from nodewise.strategies.options import Served

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

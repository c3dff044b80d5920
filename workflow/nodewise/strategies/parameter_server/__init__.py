"""TensorFlow's ParameterServerStrategy: workers train with servers that hold the weights."""

from nodewise.core.exchanges import SERVER
from nodewise.strategies.declaration import STRATEGIES, Declaration
from nodewise.strategies.options import Served

STRATEGIES.add(
    "parameter_server",
    Declaration(
        module=__name__,
        title="ParameterServerStrategy",
        max_nodes=64,
        exchange=SERVER,
        needs="extra nodes as servers",
        options=Served,
        splits_model=True,
    ),
)

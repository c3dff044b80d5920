"""Synchronous data parallelism with a training loop in one graph, for little overhead per step."""

from nodewise.core.exchanges import RING
from nodewise.strategies.declaration import STRATEGIES, Declaration

STRATEGIES.add(
    "custom_loop",
    Declaration(
        module=__name__,
        title="Custom training loop, ring all-reduce",
        max_nodes=64,
        exchange=RING,
    ),
)

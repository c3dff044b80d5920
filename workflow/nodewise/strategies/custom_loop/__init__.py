"""A training loop in one graph: synchronous data parallelism with little overhead per step."""

from nodewise.strategies.declaration import STRATEGIES, Declaration

STRATEGIES.add(
    "custom_loop",
    Declaration(
        module=__name__,
        title="Custom training loop, ring all-reduce",
        max_nodes=64,
        exchange="ring",
    ),
)

"""Synchronous data parallelism with a training loop in one graph, for little overhead per step."""

from nodewise.strategies.bytes_sent import ring
from nodewise.strategies.declaration import STRATEGIES, Declaration, Facts

STRATEGIES.add(
    "custom_loop",
    Declaration(
        module=__name__,
        title="Custom training loop, ring all-reduce",
        max_nodes=64,
        exchange="ring",
        facts=Facts(
            synchronous="yes",
            holds="every worker",
            sends="2(n − 1)/n · S",
            needs="nothing else",
        ),
        bytes_sent=ring,
    ),
)

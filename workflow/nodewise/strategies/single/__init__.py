"""One process: the base of every speed-up."""

from nodewise.strategies.declaration import STRATEGIES, Declaration

STRATEGIES.add(
    "single",
    Declaration(
        module=__name__,
        title="Single process, baseline",
        max_nodes=1,
        exchange="none",
    ),
)

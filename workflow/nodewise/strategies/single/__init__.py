"""Training in a single process: the baseline of every speed-up."""

from nodewise.core.exchanges import NONE
from nodewise.strategies.declaration import STRATEGIES, Declaration

STRATEGIES.add(
    "single",
    Declaration(
        module=__name__,
        title="Single process, baseline",
        max_nodes=1,
        exchange=NONE,
        needs="nothing",
    ),
)

"""Training in a single process: the baseline of every speed-up."""

from nodewise.strategies.bytes_sent import nothing
from nodewise.strategies.declaration import STRATEGIES, Declaration, Facts

STRATEGIES.add(
    "single",
    Declaration(
        module=__name__,
        title="Single process, baseline",
        max_nodes=1,
        exchange="none",
        facts=Facts(
            synchronous="one worker, which waits for nobody",
            holds="the worker",
            sends="0",
            needs="nothing",
        ),
        bytes_sent=nothing,
    ),
)

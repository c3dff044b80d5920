"""Horovod: its all-reduce sums the gradients of all workers."""

from nodewise.strategies.bytes_sent import ring
from nodewise.strategies.declaration import STRATEGIES, Declaration, Facts
from nodewise.strategies.horovod import build

STRATEGIES.add(
    "horovod",
    Declaration(
        module=__name__,
        title="Horovod, ring all-reduce (Gloo)",
        max_nodes=64,
        exchange="ring",
        facts=Facts(
            synchronous="yes",
            holds="every worker",
            sends="2(n − 1)/n · S",
            needs="Horovod, built from its source",
        ),
        bytes_sent=ring,
        packages=("horovod",),
        why_missing=build.why_missing,
    ),
)

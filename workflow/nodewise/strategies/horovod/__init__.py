"""Horovod: its all-reduce sums the gradients of all workers."""

from nodewise.core.exchanges import RING
from nodewise.strategies.declaration import STRATEGIES, Declaration, Library
from nodewise.strategies.horovod import build

STRATEGIES.add(
    "horovod",
    Declaration(
        module=__name__,
        title="Horovod, ring all-reduce (Gloo)",
        max_nodes=64,
        exchange=RING,
        needs="Horovod, built from its source",
        packages=("horovod",),
        library=Library(folder=build.FOLDER, why_missing=build.missing),
        command="nodewise prepare horovod",
    ),
)

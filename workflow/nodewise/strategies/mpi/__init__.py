"""MPI: an all-reduce of MPICH sums the gradients of all workers."""

from dataclasses import replace

from nodewise.core.exchanges import RING
from nodewise.strategies.declaration import STRATEGIES, Declaration

STRATEGIES.add(
    "mpi",
    Declaration(
        module=__name__,
        title="MPI, ring all-reduce (MPICH)",
        max_nodes=64,
        exchange=replace(RING, hidden_share=0.5),
        needs="MPICH",
        packages=("mpi4py", "mpich"),
    ),
)

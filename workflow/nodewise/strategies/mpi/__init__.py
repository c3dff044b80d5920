"""MPI: an all-reduce of MPICH sums the gradients of all workers."""

from nodewise.strategies.declaration import STRATEGIES, Declaration

STRATEGIES.add(
    "mpi",
    Declaration(
        module=__name__,
        title="MPI, ring all-reduce (MPICH)",
        max_nodes=64,
        exchange="ring",
        packages=("mpi4py", "mpich"),
    ),
)

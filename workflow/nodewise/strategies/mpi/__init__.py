"""MPI: an all-reduce of MPICH sums the gradients of all workers."""

from nodewise.strategies.bytes_sent import ring
from nodewise.strategies.declaration import STRATEGIES, Declaration, Facts

STRATEGIES.add(
    "mpi",
    Declaration(
        module=__name__,
        title="MPI, ring all-reduce (MPICH)",
        max_nodes=64,
        exchange="ring",
        facts=Facts(
            synchronous="yes",
            holds="every worker",
            sends="2(n − 1)/n · S",
            needs="MPICH",
        ),
        bytes_sent=ring,
        packages=("mpi4py", "mpich"),
    ),
)

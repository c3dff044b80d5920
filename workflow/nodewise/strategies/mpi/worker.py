"""MPI: an all-reduce of MPICH, over TCP, sums the gradients of all workers.

This is synchronous data parallelism like MultiWorkerMirroredStrategy, but it uses the message
passing interface of high-performance computing, called through mpi4py. MPI normally waits by
polling without a pause, which would use up a node's share of a core. Here a rank starts a
collective, then polls whether it is done and sleeps in between.

The all-reduce is a ring: every worker sends 2(n−1)/n of the gradient. MPICH's default algorithm is
as good if n is a power of two, but of three workers it makes one send its whole gradient twice.
"""

import ctypes
import math
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import mpi4py
import numpy as np

from nodewise.core.errors import RefusedError
from nodewise.strategies import api, replica
from nodewise.strategies.calls import Array, CallsExchange
from nodewise.strategies.mpi import pmi
from nodewise.strategies.transport import interface

mpi4py.rc.initialize = False  # MPI is initialised later, when a rank knows its peers
from mpi4py import MPI  # noqa: E402

_PAUSE = 0.02  # a pause between two polls, as a share of the quiet time so far
_LONGEST_PAUSE_S = 0.005
_MOVED_S = 50e-6  # a longer poll has moved data: a poll with nothing to do takes a tenth of this
_SHARED_FOLDER = "/dev/shm"  # noqa: S108
_SHARED_MEMORY = f"{_SHARED_FOLDER}/mpich_"  # prefix of the files that MPICH creates
_SHARED_BYTES = 2_000_000  # per rank; MPICH 5 takes 1.1 MB
# The share of the quiet time that is kept when data moved. It is not 0, because a poll may also be
# slow due to the kernel.
_QUIET_LEFT = 0.25


class Ranks(CallsExchange):
    """All ranks of the job, each on its own node."""

    def __init__(self, job: api.Job) -> None:
        """Initialise MPI as one rank of the job. Collective.

        Raises:
            OSError: a worker did not connect, or is gone.
            RefusedError: there is not enough room for shared memory.
        """
        super().__init__()
        os.environ |= {
            "MPIR_CVAR_PMI_VERSION": "1",  # even if a batch system offers another version
            "MPIR_CVAR_CH4_NETMOD": "ofi",
            "MPIR_CVAR_IALLREDUCE_INTRA_ALGORITHM": "tsp_ring",
            "FI_PROVIDER": "tcp",
            "FI_TCP_IFACE": interface(job.addresses[job.rank]),
        }
        _check_room(job.size)
        pmi.manage(job.connect())
        # Call MPI_Init_thread through ctypes, which releases the GIL. MPI.Init of mpi4py holds it,
        # and the thread that answers MPI's PMI requests could not run.
        # THREAD_SERIALIZED: a TensorFlow thread calls MPI within a step and this thread in between,
        # but never both at the same time.
        provided = ctypes.c_int()
        ctypes.CDLL(MPI.__file__).MPI_Init_thread(
            None, None, MPI.THREAD_SERIALIZED, ctypes.byref(provided)
        )
        _forget_shared_memory()
        self._ranks = MPI.COMM_WORLD
        self._ranks.Set_errhandler(MPI.ERRORS_RETURN)  # mpi4py raises returned errors

    def total(self, values: Array) -> Array:
        total = np.array(values)  # keep a reference until the all-reduce is done: mpi4py does not
        finish(lambda: self._ranks.Iallreduce(MPI.IN_PLACE, total))
        return total

    def gathered(self, own: Array) -> Array:
        own = np.ascontiguousarray(own)
        rows = np.empty(self._ranks.size, np.int64)  # with ragged data, they differ between ranks
        count = np.array([len(own)], np.int64)
        finish(lambda: self._ranks.Iallgather(count, rows))
        found = np.empty((int(rows.sum()), *own.shape[1:]), own.dtype)
        entries = (rows * math.prod(own.shape[1:])).tolist()
        finish(lambda: self._ranks.Iallgatherv(own, [found, entries]))
        return found


class Strategy(replica.Strategy):
    """Trains on `job.size` ranks."""

    def __init__(self, job: api.Job) -> None:
        super().__init__(job, Ranks(job))


def finish(begin: Callable[[], MPI.Request]) -> None:
    """Begin a collective and wait until it is done.

    Sleeps between polls; pauses get longer while nothing happens. Polling also sends and receives.

    Raises:
        ConnectionError: a peer is gone.
    """
    try:
        request = begin()
        quiet_since = asked = time.perf_counter()
        while not request.Test():
            now = time.perf_counter()
            if now - asked > _MOVED_S:
                quiet_since = now - _QUIET_LEFT * (now - quiet_since)
            time.sleep(min(_PAUSE * (now - quiet_since), _LONGEST_PAUSE_S))
            asked = time.perf_counter()
    except MPI.Exception as error:  # the arguments are correct, so a peer must be missing
        raise ConnectionError(f"MPI: {' '.join(str(error).split())}") from error


def _check_room(ranks: int) -> None:
    """Check that there is room for shared memory: a rank without it would be killed by SIGBUS.

    Raises:
        RefusedError: there is not enough.
    """
    free, needed = shutil.disk_usage(_SHARED_FOLDER).free, ranks * _SHARED_BYTES
    if free < needed:
        raise RefusedError(
            f"{_SHARED_FOLDER} is full: {ranks} ranks of MPI take {needed / 1e6:g} MB of it, "
            f"{free / 1e6:.1f} MB are free"
        )


def _forget_shared_memory() -> None:
    """Unlink the shared memory that MPICH creates for ranks on the same node.

    No other rank is on this node, so none needs to find it. The memory itself stays until this
    process ends. Without this, a process that is killed would leave the files behind.
    """
    mapped = Path("/proc/self/maps").read_text(encoding="utf-8").split()
    for name in {word for word in mapped if word.startswith(_SHARED_MEMORY)}:
        Path(name).unlink(missing_ok=True)

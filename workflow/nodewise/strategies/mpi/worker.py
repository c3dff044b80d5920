"""MPI: the gradients of all workers are summed by an all-reduce of MPICH, over TCP.

Synchronous data parallelism like MultiWorkerMirroredStrategy, with the message passing interface of
high-performance computing underneath, called through mpi4py. MPI waits by asking without a pause,
which would use up a node's share of a core; here a rank starts a collective, then asks whether it
is done and sleeps in between.

The all-reduce is a ring: every worker sends 2(n−1)/n of the gradient. What MPICH chooses of itself
is as good where n is a power of two; of three workers it makes one send all of its gradient twice.
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
import tensorflow as tf
from numpy.typing import NDArray

from nodewise.cluster.api import NotPermittedError
from nodewise.strategies import api, replica
from nodewise.strategies.calls import Array, CallsExchange
from nodewise.strategies.mpi import pmi
from nodewise.strategies.transport import Peers, interface

mpi4py.rc.initialize = False  # a rank must know its peers first
from mpi4py import MPI  # noqa: E402

_PAUSE = 0.02  # of the quiet time
_LONGEST_PAUSE_S = 0.005
_MOVED_S = 50e-6  # asking takes a tenth of it where there is nothing to do, else several times it
_SHARED_FOLDER = "/dev/shm"  # noqa: S108
_SHARED_MEMORY = f"{_SHARED_FOLDER}/mpich_"  # begins the names that MPICH makes
_SHARED_BYTES = 2_000_000  # of a rank; MPICH 5 takes 1.1 MB
_QUIET_LEFT = 0.25  # of the quiet time when something moved: the kernel can make asking slow, too


class Ranks(CallsExchange):
    """All ranks of the job, each on a node of its own."""

    def __init__(self, job: api.Job) -> None:
        super().__init__()
        self._patience_s = job.patience_s
        self._ranks = _connected(job)

    def total(self, values: Array) -> Array:
        total = np.array(values)  # to be kept until the all-reduce is done: mpi4py does not
        finish(lambda: self._ranks.Iallreduce(MPI.IN_PLACE, total), self._patience_s)
        return total

    def concat(self, rows: tf.Tensor) -> tf.Tensor:
        return tf.ensure_shape(self._calls(self._gathered, rows), [None, *rows.shape[1:]])

    def _gathered(self, own: Array) -> Array:
        own = np.ascontiguousarray(own)
        rows = np.empty(self._ranks.size, np.int64)  # of ragged data, other ones on each rank
        count = np.array([len(own)], np.int64)
        finish(lambda: self._ranks.Iallgather(count, rows), self._patience_s)
        found = np.empty((int(rows.sum()), *own.shape[1:]), own.dtype)
        entries = (rows * math.prod(own.shape[1:])).tolist()
        finish(lambda: self._ranks.Iallgatherv(own, [found, entries]), self._patience_s)
        return found

    def to_first(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return, in rank 0, the sum of `values` over the ranks."""
        total = np.empty_like(values)
        finish(lambda: self._ranks.Ireduce(values, total, root=0), self._patience_s)
        return total

    def barrier(self) -> None:
        """Return when every worker has called it."""
        finish(self._ranks.Ibarrier, self._patience_s)


class Strategy(replica.Strategy):
    """Train on `job.size` ranks."""

    def __init__(self, job: api.Job) -> None:
        self._ranks = Ranks(job)
        super().__init__(job, self._ranks)
        self._step_s: list[float] = []

    def step(self, batch: api.Batch) -> api.Logs:
        started = time.perf_counter()
        logs = super().step(batch)
        self._step_s.append(time.perf_counter() - started)
        return logs

    def barrier(self) -> None:
        self._ranks.barrier()

    def observations(self) -> dict[str, list[float]]:
        """Return, in rank 0, `mean_step_s`: the seconds of each step, their mean over the ranks.

        Collective.
        """
        own, self._step_s = np.array(self._step_s), []
        total = self._ranks.to_first(own)
        return {"mean_step_s": (total / self._job.size).tolist()} if self._job.rank == 0 else {}


def finish(begin: Callable[[], MPI.Request], timeout_s: float) -> None:
    """Begin a collective and return when it is done.

    Sleeps between asking, the longer the longer it was quiet. Asking also sends and receives.

    Raises:
        ConnectionError: a peer is gone.
        TimeoutError: a peer did not do its part in time.
    """
    try:
        _wait(begin(), timeout_s)
    except MPI.Exception as error:  # what it was given is right: only a peer can be missing
        raise ConnectionError(f"MPI: {' '.join(str(error).split())}") from error


def _wait(request: MPI.Request, timeout_s: float) -> None:
    started = quiet_since = asked = time.perf_counter()
    while not request.Test():
        now = time.perf_counter()
        if now - started > timeout_s:
            raise TimeoutError(f"a collective of MPI is not done after {timeout_s:g} s")
        if now - asked > _MOVED_S:
            quiet_since = now - _QUIET_LEFT * (now - quiet_since)
        time.sleep(min(_PAUSE * (now - quiet_since), _LONGEST_PAUSE_S))
        asked = time.perf_counter()


def _connected(job: api.Job) -> MPI.Intracomm:
    """Initialise MPI as one rank of the job; return the communicator of all ranks.

    Raises:
        OSError: a worker did not come, or is gone.
        NotPermittedError: there is no room for shared memory.
    """
    addresses = job.addresses[: job.size]
    os.environ |= {
        "MPIR_CVAR_PMI_VERSION": "1",  # also where a batch system offers another
        "MPIR_CVAR_CH4_NETMOD": "ofi",
        "MPIR_CVAR_IALLREDUCE_INTRA_ALGORITHM": "tsp_ring",
        "FI_PROVIDER": "tcp",
        "FI_TCP_IFACE": interface(addresses[job.rank]),
    }
    _check_room(job.size)
    pmi.manage(Peers(job.rank, addresses, timeout_s=job.patience_s))
    # ctypes releases the interpreter's lock. MPI.Init of mpi4py holds it, so that the thread which
    # has to answer MPI's questions meanwhile could not run
    # a thread of TensorFlow calls MPI within a step, this one in between: never two at a time
    provided = ctypes.c_int()
    ctypes.CDLL(MPI.__file__).MPI_Init_thread(
        None, None, MPI.THREAD_SERIALIZED, ctypes.byref(provided)
    )
    _forget_shared_memory()
    MPI.COMM_WORLD.Set_errhandler(MPI.ERRORS_RETURN)  # mpi4py raises what is returned
    return MPI.COMM_WORLD


def _check_room(ranks: int) -> None:
    """Find out now whether there is room for shared memory: a rank without it is killed by SIGBUS.

    Raises:
        NotPermittedError: there is not.
    """
    free, needed = shutil.disk_usage(_SHARED_FOLDER).free, ranks * _SHARED_BYTES
    if free < needed:
        raise NotPermittedError(
            f"{_SHARED_FOLDER} is full: {ranks} ranks of MPI take {needed / 1e6:g} MB of it, "
            f"{free / 1e6:.1f} MB are free"
        )


def _forget_shared_memory() -> None:
    """Remove the names of the memory that MPICH has made to share with ranks on the same node.

    There are none, so nobody is to find it; it stays until this process ends, which may be by force
    and leaves the names behind.
    """
    mapped = Path("/proc/self/maps").read_text(encoding="utf-8").split()
    for name in {word for word in mapped if word.startswith(_SHARED_MEMORY)}:
        Path(name).unlink(missing_ok=True)

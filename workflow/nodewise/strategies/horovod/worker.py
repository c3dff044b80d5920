"""Horovod: its all-reduce, over Gloo, sums the gradients of all workers.

This is synchronous data parallelism like MultiWorkerMirroredStrategy, with another library
underneath (Sergeev and Del Balso, arXiv:1802.05799). About once a millisecond, Horovod's own thread
asks which gradients are ready on all workers; these messages are part of what is measured.
"""

import itertools
import os
import socketserver
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import tensorflow as tf

from nodewise.cluster.api import parsed
from nodewise.strategies import STRATEGIES, api, replica
from nodewise.strategies.horovod import build
from nodewise.strategies.replica import Exchange
from nodewise.strategies.transport import interface

STRATEGIES["horovod"].check_available()
sys.path.append(str(build.FOLDER.resolve() / "site"))

import horovod.tensorflow as hvd  # type: ignore[import-not-found] # noqa: E402
from horovod.runner.http.http_server import (  # type: ignore[import-not-found] # noqa: E402
    RendezvousHandler,
    RendezvousHTTPServer,
)

_NO_TIMEOUT_S = "86400"  # the time limit of the cell ends a job that hangs


class Horovod(Exchange):
    """Horovod's all-reduce and all-gather. Operations have the same names on all workers."""

    def __init__(self) -> None:
        self._names = map("exchange_{}".format, itertools.count())

    def sum(self, values: tf.Tensor) -> tf.Tensor:
        return hvd.allreduce(values, op=hvd.Sum, name=next(self._names))

    def concat(self, rows: tf.Tensor) -> tf.Tensor:
        return hvd.allgather(rows, name=next(self._names))

    @contextmanager
    def raising(self) -> Iterator[None]:
        """Raise ConnectionError for Horovod's errors that occur because a peer is gone."""
        try:
            yield
        except tf.errors.UnknownError as error:
            if "Horovod has been shut down" not in str(error):
                raise
            raise ConnectionError("Horovod has been shut down: a peer is gone") from None


class Strategy(replica.Strategy):
    """Trains on `job.size` workers, which find each other through a server in worker 0."""

    def __init__(self, job: api.Job) -> None:
        _start(job)
        super().__init__(job, Horovod())


class _Rendezvous(RendezvousHTTPServer):  # type: ignore[misc]
    daemon_threads = True
    request_queue_size = 128  # all workers ask at the same time, a hundred times a second
    server_bind = socketserver.TCPServer.server_bind  # no look-up: a node has no name server


def _start(job: api.Job) -> None:
    """Connect Horovod on all workers like its own launcher, with each worker on its own node.

    Raises:
        OSError: a worker did not connect.
    """
    peers = job.connect()
    if job.rank > 0:
        _init(job, int(peers.exchange(b"")[0]))
        peers.exchange(b"")
        return
    with _Rendezvous((parsed(job.addresses[0])[0], 0), RendezvousHandler, verbose=False) as server:
        polling = {"poll_interval": 0.01}  # seconds that `shutdown` takes at most
        threading.Thread(target=server.serve_forever, kwargs=polling, daemon=True).start()
        port = server.server_address[1]
        peers.exchange(str(port).encode())
        _init(job, port)
        peers.exchange(b"")  # when all workers are connected
        server.shutdown()


def _init(job: api.Job, port: int) -> None:
    os.environ |= {
        "HOROVOD_HOSTNAME": f"node{job.rank}",
        "HOROVOD_RANK": str(job.rank),
        "HOROVOD_SIZE": str(job.size),
        "HOROVOD_LOCAL_RANK": "0",
        "HOROVOD_LOCAL_SIZE": "1",
        "HOROVOD_CROSS_RANK": str(job.rank),
        "HOROVOD_CROSS_SIZE": str(job.size),
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": parsed(job.addresses[0])[0],
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(port),
        "HOROVOD_GLOO_IFACE": interface(job.addresses[job.rank]),
        "HOROVOD_GLOO_TIMEOUT_SECONDS": _NO_TIMEOUT_S,
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
    }
    hvd.init()

"""Horovod: the gradients of all workers are summed by its all-reduce, over Gloo.

Synchronous data parallelism like MultiWorkerMirroredStrategy, with another library underneath
(Sergeev and Del Balso, arXiv:1802.05799). Horovod's own thread asks about once a millisecond which
gradients are ready everywhere; those messages are part of what is measured.
"""

import os
import socketserver
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import tensorflow as tf

from nodewise.cluster.api import parsed
from nodewise.strategies import STRATEGIES, api
from nodewise.strategies.horovod import build
from nodewise.strategies.transport import Peers, interface

STRATEGIES["horovod"].check_available()
sys.path.append(str(build.FOLDER.resolve() / "site"))

import horovod.tensorflow as hvd  # type: ignore[import-not-found] # noqa: E402
from horovod.runner.http.http_server import (  # type: ignore[import-not-found] # noqa: E402
    RendezvousHandler,
    RendezvousHTTPServer,
)


class Strategy(api.Strategy):
    """Train on `job.size` workers that meet at a server of worker 0."""

    def __init__(self, job: api.Job) -> None:
        _start(job)
        self._job = job
        self._replica = api.Replica(job)
        self.model = self._replica.model
        self.optimizer = self._replica.optimizer
        self._step = tf.function(self._fused, autograph=False)
        self._barrier = tf.function(lambda own: _sum([own], "barrier"), autograph=False)
        self._total = tf.function(lambda flat: _sum([flat], "flat")[0], autograph=False)

    def _fused(self, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        grads, scores = api.gradients(self.model, self._job, x, y)
        # one group: else which gradients are summed together, and so their rounding, is a race
        total = _sum(grads, "gradients")
        self.optimizer.apply(total, self.model.trainable_variables)
        return scores

    def step(self, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        with _with_peers():
            return self._step(x, y)

    def split_step(self, x: tf.Tensor, y: tf.Tensor) -> api.StepTimes:
        with _with_peers():
            return self._replica.split_step(x, y, self.barrier, self._total)

    def barrier(self) -> None:
        with _with_peers():
            # a constant inside would be summed once, when TensorFlow simplifies the function
            self._barrier(tf.zeros([1]))

    def agree(self) -> None:
        statistics = api.moving_statistics(self.model)
        if statistics:
            total = _sum([tf.convert_to_tensor(v.numpy()) for v in statistics], "statistics")
            for variable, value in zip(statistics, total, strict=True):
                variable.assign(value / self._job.size)


@contextmanager
def _with_peers() -> Iterator[None]:
    """Say of what Horovod could not do for want of a peer that it is that.

    Raises:
        ConnectionError: a peer is gone.
    """
    try:
        yield
    except tf.errors.UnknownError as error:
        if "Horovod has been shut down" not in str(error):
            raise
        raise ConnectionError("Horovod has been shut down: a peer is gone") from None


def _sum(tensors: list[tf.Tensor], name: str) -> list[tf.Tensor]:
    """Return the sums over the workers; `name` is the same on all of them."""
    total: list[tf.Tensor] = hvd.grouped_allreduce(tensors, op=hvd.Sum, name=name)
    return total


class _Rendezvous(RendezvousHTTPServer):  # type: ignore[misc]
    daemon_threads = True
    request_queue_size = 128  # all workers ask at once, a hundred times a second

    def server_bind(self) -> None:
        """Do not look for a name of the address: a node knows no name server."""
        socketserver.TCPServer.server_bind(self)


def _start(job: api.Job) -> None:
    """Connect Horovod on all workers, as its own launcher would, each on a node of its own.

    Raises:
        OSError: a worker did not come.
    """
    peers = Peers(job.rank, job.addresses[: job.size], timeout_s=job.patience_s)
    if job.rank > 0:
        _init(job, int(peers.receive(0)))
        peers.send(0, b"connected")
        peers.flush()
        return
    others = range(1, job.size)
    with _Rendezvous((_host(job), 0), RendezvousHandler, verbose=False) as server:
        polling = {"poll_interval": 0.01}  # seconds that `shutdown` may take
        threading.Thread(target=server.serve_forever, kwargs=polling, daemon=True).start()
        port = server.server_address[1]
        for peer in others:
            peers.send(peer, str(port).encode())
        peers.flush()
        _init(job, port)
        for peer in others:
            peers.receive(peer)
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
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": _host(job),
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(port),
        "HOROVOD_GLOO_IFACE": interface(job.addresses[job.rank]),
        "HOROVOD_GLOO_TIMEOUT_SECONDS": f"{job.patience_s:.0f}",
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
    }
    hvd.init()


def _host(job: api.Job) -> str:
    """Return the address of worker 0, where the others ask for each other."""
    return parsed(job.addresses[0])[0]

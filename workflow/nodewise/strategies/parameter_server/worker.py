"""TensorFlow's ParameterServerStrategy: variables on servers, steps dispatched by a coordinator.

Training is asynchronous: a worker pulls the variables, computes the gradient of its own batch and
pushes it. The servers apply each gradient when it arrives, without a lock, so that two updates may
overlap. The coordinator, in the process of worker 0, dispatches every step from Python. This limits
the strategy: the more workers there are, the longer each waits for its next step. It also means
that gradients are hardly stale. (Keras' `fit` does not support this strategy, so there is a
training loop here.)

A dispatched step takes its batch from the worker's own loop, and waits until there is one. All
workers train the same number of steps.
"""

import math
import threading
from collections.abc import Iterator

import keras
import numpy as np
import tensorflow as tf

from nodewise.strategies import api, parts
from nodewise.strategies.parameter_server.coordinator import Addresses, Coordinator
from nodewise.strategies.parameter_server.feed import Feed
from nodewise.strategies.transport import Peers


def check(job: api.Job) -> None:
    """Check that the job's model can be trained with servers; raise RefusedError if not."""
    parts.check(job.build(), job.batch)


# Reads a batch in a graph. Outside of one, TensorFlow waits for all steps under way before it reads
# a batch, and some of them wait for that batch.
_read = tf.function(lambda stream: stream.get_next(), autograph=False)


class Strategy(api.Strategy):
    """Trains as one of `job.size` workers; the first one is also the coordinator.

    `model` has the servers' weights only after `agree`. For each update, a worker notes how many
    others were made between its pull and its push (`staleness`).
    """

    replicas_agree = False

    def __init__(self, job: api.Job) -> None:
        super().__init__(job)
        self._peers = job.connect(servers=True)
        self._workers = range(job.size)
        self._server = _server(job, self._peers)
        self._coordinator: Coordinator | None = None
        if job.rank == 0:  # before anything computes: this makes the process part of the cluster
            self._coordinator = Coordinator(job, _addresses(job))
        self._feed = Feed(*job.batch)
        tokens = self._peers.exchange(self._feed.tokens, among=self._workers)
        if any(one != self._feed.tokens for one in tokens):
            raise RuntimeError("the workers call Python differently")
        if self._coordinator is not None:
            self._coordinator.trace_step(self._feed)
        keras.utils.set_random_seed(job.seed)
        self.model = job.build()
        self._score = tf.function(
            lambda y, outputs, loss: parts.scored(self.model, y, outputs, loss), autograph=False
        )
        self._ahead = 0  # steps that are already dispatched to this worker

    def train(self, stream: Iterator[api.Batch], steps: int) -> Iterator[api.Steps]:
        self._dispatch(steps)
        yield from super().train((_read(stream) for _ in range(steps)), steps)

    def step(self, batch: api.Batch) -> api.Logs:
        if self._ahead == 0:
            self._dispatch(1)
        self._ahead -= 1
        x, y = batch
        loss, outputs, staleness = self._feed.train(x, y)
        self.note("staleness", staleness)
        logs: api.Logs = self._score(y, tf.constant(outputs), tf.constant(loss))
        return logs

    def _dispatch(self, steps: int) -> None:
        self._ahead += steps
        if self._coordinator is not None:
            self._coordinator.dispatch(steps)

    def split_step(self, batch: api.Batch) -> api.StepTimes:
        """Raise NotTimedError: a dispatched step is one call for this worker."""
        raise api.NotTimedError

    def weights(self) -> list[np.ndarray]:
        """Return the servers' weights on the first worker, and the last agreed ones elsewhere."""
        model = self.model if self._coordinator is None else self._coordinator.model
        return [np.asarray(variable.numpy()) for variable in model.trainable_variables]

    def barrier(self) -> None:
        if self._coordinator is not None:  # before: a worker whose step failed never comes
            self._coordinator.drain()
        self._peers.exchange(b"", among=self._workers)

    def agree(self) -> None:
        """Fetch the servers' weights and moving statistics by way of the coordinator."""
        self.barrier()
        agreed = api.agreed(self.model)
        if self._coordinator is not None:
            values = api.flat([v.numpy() for v in api.agreed(self._coordinator.model)]).numpy()
            for other in self._workers[1:]:
                self._peers.send(other, values.data)
        else:
            values = self._peers.receive_array(0, sum(math.prod(v.shape) for v in agreed))
        api.assign(agreed, values)
        self._peers.flush()

    def state(self) -> list[np.ndarray]:
        """Return the servers' state on the first worker, and an empty list elsewhere.

        Collective.
        """
        self.barrier()
        state = super().state()
        self.barrier()
        return state

    def restore(self, state: list[np.ndarray]) -> None:
        """Set the servers to `state`, on the first worker. Collective."""
        self.barrier()
        super().restore(state)
        self.barrier()

    def _variables(self) -> list[keras.Variable]:
        return [] if self._coordinator is None else api.changing(self._coordinator.model)


class Server:
    """Holds variables until its process is ended."""

    def __init__(self, job: api.Job) -> None:
        server = _server(job, job.connect(servers=True))
        threading.Thread(target=server.join, daemon=True).start()  # keeps the server alive


def _addresses(job: api.Job) -> Addresses:
    places = list(job.addresses)
    return {"worker": places[: job.size], "ps": places[job.size :]}


def _server(job: api.Job, peers: Peers) -> tf.distribute.Server:
    """Start this process's TensorFlow server, at the address at which `peers` connected.

    Returns when all servers of the job run.
    """
    is_worker = job.rank < job.size
    server = tf.distribute.Server(
        tf.train.ClusterSpec(_addresses(job)),
        job_name="worker" if is_worker else "ps",
        task_index=job.rank if is_worker else job.rank - job.size,
        config=tf.compat.v1.ConfigProto(
            intra_op_parallelism_threads=tf.config.threading.get_intra_op_parallelism_threads(),
            inter_op_parallelism_threads=tf.config.threading.get_inter_op_parallelism_threads(),
        ),
    )
    peers.exchange(b"")
    return server

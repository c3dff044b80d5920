"""TensorFlow's ParameterServerStrategy: variables on servers, steps dispatched by a coordinator.

Training is asynchronous: a worker pulls the variables, computes the gradient of its own batch and
pushes it. The servers apply each gradient when it arrives, without a lock, so that two updates may
overlap. The coordinator, in the process of worker 0, dispatches every step from Python. This limits
the strategy: the more workers there are, the longer each waits for its next step. It also means
that gradients are hardly stale. (Keras' `fit` does not support this strategy, so there is a
training loop here.)

A dispatched step takes its batch from the worker's own loop, and waits until there is one. At a
meeting of the workers all dispatched steps are ended first: to set a seed, TensorFlow waits until
no step is running, and blocks all of Python meanwhile.
"""

import math
import threading
import time

import keras
import numpy as np
import tensorflow as tf

from nodewise.strategies import api
from nodewise.strategies.parameter_server.coordinator import Coordinator
from nodewise.strategies.parameter_server.step_queue import StepQueue, StepResult
from nodewise.strategies.parts import scored, unpacked
from nodewise.strategies.transport import Peers

_SIGNS = 4  # signs of progress that a training worker sends within the patience of the others

_HERE, _TRAINING = b"here", b"training"


class Strategy(api.Strategy):
    """Trains as one of `job.size` workers; the first one is also the coordinator.

    `model` has the servers' weights only after `agree`.
    """

    replicas_agree = False

    def __init__(self, job: api.Job) -> None:
        self._job = job
        self._peers = job.connect(servers=True)
        self._others = [worker for worker in range(job.size) if worker != job.rank]
        self._server = _server(job, self._peers)
        self._coordinator: Coordinator | None = None
        if job.rank == 0:  # before anything computes: this makes the process part of the cluster
            for place in range(1, len(job.addresses)):
                self._peers.receive(place)
            self._coordinator = Coordinator(job, _cluster(job))
        keras.utils.set_random_seed(job.seed)
        self.model = job.build()
        self._score = tf.function(
            lambda y, outputs, loss: scored(self.model, y, outputs, loss), autograph=False
        )
        self._steps: StepQueue | None = None
        self._under_way = False  # whether steps are being dispatched
        self._staleness: list[float] = []
        self._last_sign = time.monotonic()

    def step(self, batch: api.Batch) -> api.Logs:
        done = self._train(batch)
        logs: api.Logs = self._score(batch[1], tf.constant(done.outputs), tf.constant(done.loss))
        return logs

    def split_step(self, batch: api.Batch) -> api.StepTimes:
        """Raise NotTimedError: a dispatched step is one call for this worker."""
        raise api.NotTimedError

    def _train(self, batch: api.Batch) -> StepResult:
        x, y = unpacked(batch)
        if self._steps is None:
            self._steps = self._step_queue(x, y)
        if not self._under_way:
            self._under_way = True
            if self._coordinator is not None:
                self._coordinator.dispatch()
        done = self._steps.train(x, y)
        self._staleness.append(done.staleness)
        if time.monotonic() - self._last_sign > self._job.patience_s / _SIGNS:
            self._last_sign = time.monotonic()
            self._send_all(_TRAINING)
        return done

    def _step_queue(self, x: tf.Tensor, y: tf.Tensor) -> StepQueue:
        """Return a queue for batches of this shape and type. Collective."""
        steps = StepQueue(x, y, self._job.patience_s)
        self._send_all(steps.tokens)
        for other in self._others:
            if self._peers.receive(other) != steps.tokens:
                raise RuntimeError(f"workers {self._job.rank} and {other} call Python differently")
        if self._coordinator is not None:
            self._coordinator.trace_step(steps)
        return steps

    def _send_all(self, message: bytes) -> None:
        for other in self._others:
            self._peers.send(other, message)

    def weights(self) -> list[np.ndarray]:
        """Return the servers' weights on the first worker, and the last agreed ones elsewhere."""
        model = self.model if self._coordinator is None else self._coordinator.model
        return [np.asarray(variable.numpy()) for variable in model.trainable_variables]

    def barrier(self) -> None:
        """Wait until every worker has called this, including workers that still train."""
        self._meet()
        if self._steps is not None and self._under_way:
            self._under_way = False
            self._steps.close()
            if self._coordinator is not None:
                self._coordinator.drain()
            self._meet()
            self._steps.open()

    def _meet(self) -> None:
        self._send_all(_HERE)
        for other in self._others:
            while self._peers.receive(other) == _TRAINING:
                pass
        self._peers.flush()

    def agree(self) -> None:
        """Fetch the servers' weights and moving statistics by way of the coordinator."""
        self.barrier()
        mine = api.agreed(self.model)
        if self._coordinator is not None:
            for target, source in zip(mine, api.agreed(self._coordinator.model), strict=True):
                target.assign(source.numpy())
                self._send_all(np.asarray(target.numpy()).astype(np.float32).tobytes())
        else:
            for target in mine:
                values = self._peers.receive_array(0, math.prod(target.shape))
                target.assign(values.reshape(target.shape))
        self._peers.flush()

    def observations(self) -> dict[str, list[float]]:
        """Return, for each update, how many others were made between its pull and its push."""
        noted, self._staleness = self._staleness, []
        return {"staleness": noted}

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
        return [] if self._coordinator is None else self._coordinator.variables()


class Server:
    """Holds variables until its process is ended."""

    def __init__(self, job: api.Job) -> None:
        server = _server(job, job.connect(servers=True))
        threading.Thread(target=server.join, daemon=True).start()  # keeps the server alive


def _cluster(job: api.Job) -> dict[str, list[str]]:
    places = list(job.addresses)
    return {"worker": places[: job.size], "ps": places[job.size :]}


def _server(job: api.Job, peers: Peers) -> tf.distribute.Server:
    """Start this process's TensorFlow server, and tell worker 0 that it runs; return it.

    It listens on the address at which `peers` connected.
    """
    is_worker = job.rank < job.size
    server = tf.distribute.Server(
        tf.train.ClusterSpec(_cluster(job)),
        job_name="worker" if is_worker else "ps",
        task_index=job.rank if is_worker else job.rank - job.size,
        config=tf.compat.v1.ConfigProto(
            intra_op_parallelism_threads=tf.config.threading.get_intra_op_parallelism_threads(),
            inter_op_parallelism_threads=tf.config.threading.get_inter_op_parallelism_threads(),
        ),
    )
    if job.rank > 0:
        peers.send(0, _HERE)
        peers.flush()
    return server

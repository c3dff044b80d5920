"""TensorFlow's ParameterServerStrategy: variables on servers, steps handed out by a coordinator.

Asynchronous: a worker pulls the variables, computes the gradient of its own batch and pushes it;
the servers apply what comes when it comes, without a lock, so that two updates may overlap. The
coordinator, in the process of worker 0, dispatches every step from Python, which is what limits
this strategy: a worker waits for its next step longer the more workers there are, and so gradients
are hardly stale. (Keras' `fit` cannot drive this strategy; the loop here can.)

A dispatched step takes its batch from the worker's own loop, and waits until there is one. Where
workers meet, such steps are ended: to set a seed TensorFlow waits until none is under way, and
keeps all of Python waiting with it.
"""

import itertools
import queue
import socket
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from nodewise.cluster.api import parsed
from nodewise.core.errors import RefusedError
from nodewise.strategies import api
from nodewise.strategies.parts import (
    mean_loss,
    optimizer_of_all,
    optimizer_of_parts,
    refuse_constraints,
    scored,
    unpacked,
)
from nodewise.strategies.transport import Peers

_SIGNS = 4  # who trains tells those who may wait for it, so often before they lose their patience

_HERE, _TRAINING = b"here", b"training"


class _Done(NamedTuple):
    """What a dispatched step leaves; `marks` are the times at which its parts ended."""

    loss: NDArray[np.float32]
    outputs: NDArray[np.float32]
    staleness: int
    marks: list[float]


class _Desk:
    """Where the worker's loop and the step that its server runs meet: both are in one process.

    Functions of TensorFlow call Python by a token. A step is traced by the coordinator, and finds
    the functions of the worker that runs it if they have the same tokens there.
    """

    def __init__(self, x: tf.Tensor, y: tf.Tensor, patience_s: float) -> None:
        self._patience_s = patience_s
        self._asked: queue.SimpleQueue[tuple[tf.Tensor, tf.Tensor] | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[_Done | Exception] = queue.SimpleQueue()
        self._marks: list[float] = []
        self._x, self._y = (tf.TensorSpec.from_tensor(tensor) for tensor in (x, y))
        calls = tf.function(self._calls, autograph=False).get_concrete_function()
        self._kept = calls  # the tokens are valid as long as it is
        called = [op for op in calls.graph.get_operations() if op.type == "PyFunc"]
        self._tokens = {op.name: op.get_attr("token") for op in called}
        self.tokens = b" ".join(self._tokens.values())

    def _calls(self) -> None:
        """Register the three functions."""
        tf.numpy_function(self._take, [], [tf.bool, self._x.dtype, self._y.dtype], name="take")
        tf.numpy_function(self._mark, [], [], name="mark")
        made = [tf.zeros([]), tf.zeros([]), tf.zeros([], tf.int64)]
        tf.numpy_function(self._finish, made, [], name="finish")

    def train(self, x: tf.Tensor, y: tf.Tensor) -> _Done:
        """Return what the next step that the coordinator dispatches to this worker has done.

        Raises:
            TimeoutError: none was done in time.
            Exception: what the coordinator failed for.
        """
        self._marks = [time.perf_counter()]
        self._asked.put((x, y))
        try:
            done = self._done.get(timeout=self._patience_s)
        except queue.Empty:
            raise TimeoutError(f"no step was done within {self._patience_s:g} s") from None
        if isinstance(done, Exception):
            raise done
        return done

    def fail(self, error: Exception) -> None:
        """Let the worker's next step, or the one that it waits for, fail for `error`."""
        self._done.put(error)

    def close(self) -> None:
        """Let steps go by without a batch from now on."""
        self._asked.put(None)

    def open(self) -> None:
        """Let steps wait for a batch again. None is under way."""
        self._asked.get()

    def take(self) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """In a step: return whether there is a batch, and the worker's batch."""
        kinds = [tf.bool, self._x.dtype, self._y.dtype]
        there, x, y = tf.raw_ops.PyFunc(input=[], token=self._tokens["take"], Tout=kinds)
        x, y = tf.ensure_shape(x, self._x.shape), tf.ensure_shape(y, self._y.shape)
        return tf.ensure_shape(there, []), x, y

    def mark(self) -> tf.Operation:
        """In a step: note the time."""
        return tf.raw_ops.PyFunc(input=[], token=self._tokens["mark"], Tout=[])

    def finish(self, loss: tf.Tensor, outputs: tf.Tensor, staleness: tf.Tensor) -> tf.Operation:
        """In a step: note the time and tell the worker that the step is done."""
        given = [loss, outputs, staleness]
        return tf.raw_ops.PyFunc(input=given, token=self._tokens["finish"], Tout=[])

    def _take(self) -> tuple[np.bool_, NDArray[np.generic], NDArray[np.generic]]:
        batch = self._asked.get()
        if batch is None:
            self._asked.put(None)
            x, y = (np.zeros(one.shape, one.dtype.as_numpy_dtype) for one in (self._x, self._y))
            return np.False_, x, y
        self._mark()
        return np.True_, batch[0].numpy(), batch[1].numpy()

    def _mark(self) -> None:
        self._marks.append(time.perf_counter())

    def _finish(
        self, loss: NDArray[np.float32], outputs: NDArray[np.float32], staleness: np.int64
    ) -> None:
        self._mark()
        self._done.put(_Done(loss.copy(), outputs.copy(), int(staleness), self._marks))


class _Coordinator:
    """Holds the variables on the servers and dispatches steps to whichever worker is free."""

    def __init__(self, job: api.Job, cluster: dict[str, list[str]]) -> None:
        self._job = job
        host, _ = parsed(job.addresses[0])
        with socket.create_server((host, 0)) as free:
            own = f"{host}:{free.getsockname()[1]}"
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
            tf.train.ClusterSpec(cluster | {"chief": [own]}),
            task_type="chief",
            task_id=0,
            rpc_layer="grpc",
        )
        servers = len(cluster["ps"])
        # large variables are cut along their first axis: else one server could have nearly all
        partitioner = tf.distribute.experimental.partitioners.MinSizePartitioner(max_shards=servers)
        self._strategy = tf.distribute.ParameterServerStrategy(resolver, partitioner)
        self._coordinator = tf.distribute.coordinator.ClusterCoordinator(self._strategy)
        self._one_at_a_time = threading.Lock()
        self._stop = threading.Event()
        self._suppliers: list[threading.Thread] = []
        with self._strategy.scope():
            keras.utils.set_random_seed(job.seed)
            self.model = job.build()
            _refuse_tables(self.model)
            of = optimizer_of_parts if servers > 1 else optimizer_of_all
            self.optimizer = of(self.model)
            self._pieces = [_pieces(variable) for variable in self.model.trainable_variables]
            refuse_constraints(
                variable
                for variable, pieces in zip(
                    self.model.trainable_variables, self._pieces, strict=True
                )
                if len(pieces) > 1
            )
            self.optimizer.build([*itertools.chain(*self._pieces)])

    def employ(self, desk: _Desk) -> None:
        """Dispatch such steps as take their batch from a desk like this one."""
        train = tf.function(
            lambda x, y: self._strategy.run(self._step, args=(x, y, desk)), autograph=False
        )

        def done(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
            # this function is done when its variables are updated
            loss, outputs, staleness = train(x, y)
            with tf.control_dependencies([loss]):
                finished = desk.finish(loss, outputs, staleness)
            with tf.control_dependencies([finished]):
                return tf.zeros([])

        def step() -> tf.Tensor:
            there, x, y = desk.take()
            return tf.cond(there, lambda: done(x, y), lambda: tf.zeros([]))

        self._desk = desk
        self._function = tf.function(step, autograph=False)

    def dispatch(self) -> None:
        """Dispatch steps from now on.

        Every worker has one, even if it has no batch for it now, and as many are there to be taken.
        """
        self._stop.clear()
        for _ in range(2 * self._job.size):
            thread = threading.Thread(target=self._supply, daemon=True)
            self._suppliers.append(thread)
            thread.start()

    def drain(self) -> None:
        """Return when no step is under way; desks must let them go by.

        Raises:
            TimeoutError: a step was not done in time.
        """
        self._stop.set()
        for thread in self._suppliers:
            thread.join(self._job.patience_s)
            if thread.is_alive():
                raise TimeoutError(f"a step was not done within {self._job.patience_s:g} s")
        self._suppliers.clear()

    def _supply(self) -> None:
        try:
            while not self._stop.is_set():
                with self._one_at_a_time:  # the first one traces
                    done = self._coordinator.schedule(self._function)
                done.get()
        except Exception as error:  # nobody waits for this thread
            self._desk.fail(error)

    def _step(
        self, x: tf.Tensor, y: tf.Tensor, desk: _Desk
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Pull, compute, push; return the loss, the outputs and the gradient's staleness."""
        trained, others = self.model.trainable_variables, self.model.non_trainable_variables
        with tf.control_dependencies([x]):
            updates = tf.identity(self.optimizer.iterations.value)
            weights = [_pulled(variable) for variable in trained]
            rest = [_pulled(variable) for variable in others]
        with tf.control_dependencies([updates, *weights, *rest]):
            pulled = desk.mark()
        with tf.control_dependencies([pulled]), tf.GradientTape() as tape:
            tape.watch(weights)
            outputs, changed = self._forward(x, weights, rest)
            # Keras divides by the number of replicas
            loss = mean_loss(self.model, y, outputs) * self._strategy.num_replicas_in_sync
            # as a part of the global batch's mean; an update of its own takes a whole one
            weighted = loss * (self._job.size * x.shape[0] / self._job.global_batch)
        gradients = tape.gradient(weighted, weights)
        with tf.control_dependencies(tf.nest.flatten(gradients, expand_composites=True)):
            computed = desk.mark()
        with tf.control_dependencies([computed]):
            staleness = tf.identity(self.optimizer.iterations.value) - updates
        with tf.control_dependencies([staleness]):
            parts = map(_cut, gradients, self._pieces)
            self.optimizer.apply([*itertools.chain(*parts)])
            for variable, before, after in zip(others, rest, changed, strict=True):
                if after is not before:
                    variable.assign(after)
        return loss, outputs, tf.cast(staleness, tf.int64)

    def _forward(
        self, x: tf.Tensor, weights: list[tf.Tensor], rest: list[tf.Tensor]
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Return the outputs, and what `rest`, the variables without a gradient, become.

        Raises:
            RefusedError: the model does more than that, which the servers would not get.
        """
        trained, others = self.model.trainable_variables, self.model.non_trainable_variables
        mapping = [*zip(trained, weights, strict=True), *zip(others, rest, strict=True)]
        with keras.StatelessScope(state_mapping=mapping, collect_losses=True) as scope:
            outputs = self.model(x, training=True)
            if self.model.losses:
                raise RefusedError("the model adds losses of its own, and this strategy cuts it")
        for variable, value in zip(trained, weights, strict=True):
            if scope.get_current_value(variable) is not value:
                raise RefusedError(
                    f"a layer changes {variable.path} itself, which the servers do not get"
                )
        return outputs, [scope.get_current_value(variable) for variable in others]

    def variables(self) -> list[keras.Variable]:
        """Return what training changes, on the servers."""
        return api.changing(self.model, self.optimizer)


def _refuse_tables(model: keras.Model) -> None:
    """Check that no layer has a lookup table, which other processes do not get.

    Raises:
        RefusedError: one has.
    """
    for layer in api.layers_in(model):
        if getattr(layer, "lookup_table", None) is not None:
            raise RefusedError(f"the layer {layer.name} has a lookup table, which servers do not")


def _pulled(variable: keras.Variable) -> tf.Tensor:
    """Return a copy of a variable, whose pieces are put together here."""
    return tf.identity(tf.convert_to_tensor(variable.value))


def _pieces(variable: keras.Variable) -> list[tf.Variable]:
    """Return what the servers have of a variable: all of it, or some rows each."""
    return list(getattr(variable.value, "variables", [variable]))


def _cut(gradient: tf.Tensor, pieces: list[tf.Variable]) -> list[tf.Tensor]:
    """Return the gradient of a variable, cut as the variable is."""
    if len(pieces) == 1:
        return [gradient]
    if isinstance(gradient, tf.IndexedSlices):  # of an embedding, the rows of this batch
        return list(_cut_rows(gradient, pieces))
    parts: list[tf.Tensor] = tf.split(gradient, [piece.shape[0] for piece in pieces])
    return parts


def _cut_rows(gradient: tf.IndexedSlices, pieces: list[tf.Variable]) -> Iterator[tf.IndexedSlices]:
    first = 0
    for piece in pieces:
        rows = piece.shape[0]
        own = (gradient.indices >= first) & (gradient.indices < first + rows)
        yield tf.IndexedSlices(
            tf.boolean_mask(gradient.values, own),
            tf.boolean_mask(gradient.indices, own) - first,
            piece.shape,
        )
        first += rows


class Strategy(api.Strategy):
    """Train as one of `job.size` workers; the first one is the coordinator, too.

    `model` is what the servers have only after `agree`.
    """

    replicas_agree = False

    def __init__(self, job: api.Job) -> None:
        self._job = job
        self._peers = Peers(job.rank, job.addresses, timeout_s=job.patience_s)
        self._others = [worker for worker in range(job.size) if worker != job.rank]
        self._server = _server(job, self._peers)
        self._coordinator: _Coordinator | None = None
        if job.rank == 0:  # first of all that computes: it makes this process one of the cluster
            for place in range(1, len(job.addresses)):
                self._peers.receive(place)
            self._coordinator = _Coordinator(job, _cluster(job))
        keras.utils.set_random_seed(job.seed)
        self.model = job.build()
        self._score = tf.function(
            lambda y, outputs, loss: scored(self.model, y, outputs, loss), autograph=False
        )
        self._desk: _Desk | None = None
        self._under_way = False  # steps are dispatched
        self._staleness: list[float] = []
        self._told = time.monotonic()

    def step(self, batch: api.Batch) -> api.Logs:
        done = self._train(batch)
        logs: api.Logs = self._score(batch[1], tf.constant(done.outputs), tf.constant(done.loss))
        return logs

    def split_step(self, batch: api.Batch) -> api.StepTimes:
        """Train one step in parts.

        To wait is to wait until the coordinator's step begins; to communicate, to pull the
        variables; to apply, to push the gradients and have them applied.
        """
        wait, communicate, compute, apply = np.diff(self._train(batch).marks).tolist()
        return api.StepTimes(compute, wait, communicate, apply)

    def _train(self, batch: api.Batch) -> _Done:
        x, y = unpacked(batch)
        if self._desk is None:
            self._desk = self._opened(x, y)
        if not self._under_way:
            self._under_way = True
            if self._coordinator is not None:
                self._coordinator.dispatch()
        done = self._desk.train(x, y)
        self._staleness.append(done.staleness)
        if time.monotonic() - self._told > self._job.patience_s / _SIGNS:
            self._told = time.monotonic()
            self._tell(_TRAINING)
        return done

    def _opened(self, x: tf.Tensor, y: tf.Tensor) -> _Desk:
        """Return the desk for batches like this one. Collective."""
        desk = _Desk(x, y, self._job.patience_s)
        self._tell(desk.tokens)
        for other in self._others:
            if self._peers.receive(other) != desk.tokens:
                raise RuntimeError(f"workers {self._job.rank} and {other} call Python differently")
        if self._coordinator is not None:
            self._coordinator.employ(desk)
        return desk

    def _tell(self, message: bytes) -> None:
        for other in self._others:
            self._peers.send(other, message)

    def weights(self) -> list[np.ndarray]:
        """Return the servers' weights on the first worker, elsewhere those last agreed on."""
        model = self.model if self._coordinator is None else self._coordinator.model
        return [np.asarray(variable.numpy()) for variable in model.trainable_variables]

    def barrier(self) -> None:
        """Return when every worker has called it; one that still trains is waited for."""
        self._meet()
        if self._desk is not None and self._under_way:
            self._under_way = False
            self._desk.close()
            if self._coordinator is not None:
                self._coordinator.drain()
            self._meet()
            self._desk.open()

    def _meet(self) -> None:
        self._tell(_HERE)
        for other in self._others:
            while self._peers.receive(other) == _TRAINING:
                pass
        self._peers.flush()

    def agree(self) -> None:
        """Take weights and moving statistics of the servers, by way of the coordinator."""
        self.barrier()
        mine = api.agreed(self.model)
        if self._coordinator is not None:
            for target, source in zip(mine, api.agreed(self._coordinator.model), strict=True):
                target.assign(source.numpy())
                self._tell(np.asarray(target.numpy()).astype(np.float32).tobytes())
        else:
            for target in mine:
                values = self._peers.receive_array(0)
                target.assign(values.reshape(target.shape))
        self._peers.flush()

    def observations(self) -> dict[str, list[float]]:
        """Return, for each update, how many others came between its pull and its push."""
        noted, self._staleness = self._staleness, []
        return {"staleness": noted}

    def state(self) -> list[np.ndarray]:
        """Return, on the first worker, what the servers have. Collective."""
        self.barrier()
        state = super().state()
        self.barrier()
        return state

    def restore(self, state: list[np.ndarray]) -> None:
        """Set, on the first worker, the servers to `state`. Collective."""
        self.barrier()
        super().restore(state)
        self.barrier()

    def _variables(self) -> list[keras.Variable]:
        return [] if self._coordinator is None else self._coordinator.variables()


class Server:
    """Holds variables until its process is ended."""

    def __init__(self, job: api.Job) -> None:
        server = _server(job, Peers(job.rank, job.addresses, timeout_s=job.patience_s))
        threading.Thread(target=server.join, daemon=True).start()  # it lives as long as this thread


def _cluster(job: api.Job) -> dict[str, list[str]]:
    places = list(job.addresses)
    return {"worker": places[: job.size], "ps": places[job.size :]}


def _server(job: api.Job, peers: Peers) -> tf.distribute.Server:
    """Return the running server of this place, which was told to the first one.

    It listens where `peers` found each other.
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

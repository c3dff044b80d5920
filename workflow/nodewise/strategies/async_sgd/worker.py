"""Asynchronous SGD with parameter servers: every worker trains at its own pace.

A worker computes a gradient on the weights it has, pushes it to the servers and gets the weights
back as they are by then; it waits for no other worker, unless staleness is bounded. Servers are
nodes of their own; with several, each has a part of the flat parameters and updates it for itself.
Each counts the workers' steps, and holds back who is too far ahead: a worker trains on when all let
it. Meetings are held by all, values are brought to the first.
"""

import time
from collections.abc import Iterable, Mapping
from functools import partial
from typing import cast

import keras
import numpy as np
import tensorflow as tf
from typing_extensions import Buffer

from nodewise.core.errors import RefusedError
from nodewise.models import fit_options
from nodewise.models.contents import examples_in, inner_optimizers, optimizers_of
from nodewise.strategies import api, per_worker
from nodewise.strategies.async_sgd import AsyncSgd
from nodewise.strategies.async_sgd.server import NOT_YET, NOTE_BYTES, Note, Request, Server
from nodewise.strategies.async_sgd.staleness import Flat
from nodewise.strategies.calls import Calls
from nodewise.strategies.replica import Gradient, after, build
from nodewise.strategies.transport import Peers

__all__ = ["Server", "Strategy"]

_CHECKED = 2  # pushes before which it is checked that only servers change weights
_SEVERAL = "the model has several optimizers, and this strategy's servers one"


class Strategy(api.Strategy):
    """Train as one of `job.size` workers; the addresses of the servers come after theirs."""

    replicas_agree = False

    def __init__(self, job: api.Job) -> None:
        self._job = job
        self._bounded = cast(AsyncSgd, job.options).bound is not None
        self._noted: dict[str, list[float]] = {}
        self._marks: list[tf.Tensor] | None = None
        self._graph: tf.Graph | None = None  # of the step that is traced
        self._inside = False  # gradients are pushed in another graph, which the step runs
        self._held_s = 0.0  # in the last push
        self._calls = Calls()
        self._pushes = 0  # of a step
        self._unchecked = _CHECKED
        self._given = np.zeros(0, np.float32)  # by the servers, while that is checked
        keras.utils.set_random_seed(job.seed)
        self.model = job.build()
        _check_optimizer(self.model)
        for optimizer in optimizers_of(self.model):
            optimizer.apply = partial(self._pushed, optimizer)
        if job.size > 1:
            per_worker.check_unsynchronized(self.model)
        self._step = tf.function(self._own_step, autograph=False)
        self._marked = tf.function(self._marked_step, autograph=False)
        self._load = tf.function(
            lambda weights: api.assign(self.model.trainable_variables, weights), autograph=False
        )
        build(self.model, self._step, job)
        api.own_masks(self.model, job.rank)
        self._peers = Peers(job.rank, job.addresses, timeout_s=job.patience_s)
        self._servers = range(job.size, len(job.addresses))
        self._pull()  # an initializer may have no seed

    def _own_step(self, batch: api.Batch) -> api.Logs:
        return self._train(batch, None)

    def _marked_step(self, batch: api.Batch) -> tf.Tensor:
        """Train a step; return when its gradient was ready, and when the weights were here."""
        marks: list[tf.Tensor] = []
        self._train(batch, marks)
        if self._inside:
            raise api.NotTimedError
        return tf.stack(marks)

    def _train(self, batch: api.Batch, marks: list[tf.Tensor] | None) -> api.Logs:
        """Train a step; note its marks if there is a list for them.

        Raises:
            RefusedError: the model trains without its optimizer.
        """
        self._pushes = 0
        self._weight = self._job.size * examples_in(batch) / self._job.global_batch
        self._marks = marks
        self._graph = tf.compat.v1.get_default_graph()
        logs = api.numbers(self.model.train_step(batch))
        if not self._pushes and not self._inside:  # such a graph is traced once only
            raise RefusedError("the model's train_step applies no gradient by its optimizer")
        return logs

    def _pushed(
        self,
        optimizer: keras.optimizers.Optimizer,
        grads: Iterable[Gradient],
        trainable_variables: Iterable[keras.Variable] | None = None,
    ) -> None:
        """In place of an update by `optimizer`: have the servers make it, take their weights.

        Raises:
            RefusedError: it is not the compiled optimizer, which servers have.
        """
        if optimizer is not self.model.optimizer:
            raise RefusedError(_SEVERAL)
        self._inside |= tf.compat.v1.get_default_graph() is not self._graph
        self._pushes += 1
        trained = self.model.trainable_variables
        given = zip(trainable_variables or trained, grads, strict=True)
        known = {id(variable): one for variable, one in given if one is not None}
        dense = [
            tf.convert_to_tensor(known[id(v)]) if id(v) in known else tf.zeros(v.shape)
            for v in trained
        ]
        gradient = api.flat(dense) * self._weight
        ready = after([gradient])
        with tf.control_dependencies([ready]):
            weights = self._calls(self._push, tf.identity(gradient))
        weights = tf.ensure_shape(weights, gradient.shape)
        here = after([weights])
        if self._marks is not None:
            self._marks += [ready, here]
        with tf.control_dependencies([here]):
            api.assign(trained, tf.identity(weights))

    def step(self, batch: api.Batch) -> api.Logs:
        with self._calls.raising():
            logs: api.Logs = self._step(batch)
        return logs

    def split_step(self, batch: api.Batch) -> api.StepTimes:
        """Train one step in parts, of which waiting is what the servers held the worker back."""
        began = time.time()  # the clock of tf.timestamp
        with self._calls.raising():
            ready, here = self._marked(batch).numpy()
        exchange = here - ready
        return api.StepTimes(
            ready - began, self._held_s, exchange - self._held_s, time.time() - here
        )

    def _push(self, gradient: Flat) -> Flat:
        """Send each server its part of the gradient; return the new weights.

        Raises:
            RefusedError: weights are not those that the servers gave.
        """
        if self._unchecked:
            self._unchecked -= 1
            own = np.concatenate([w.ravel().astype(np.float32) for w in self.weights()])
            if not np.array_equal(own, self._given, equal_nan=True):
                raise RefusedError(
                    "the model changes weights other than by its optimizer, which the servers "
                    "do not get"
                )
        parts = [part.data for part in np.array_split(gradient, len(self._servers))]
        answers = self._ask(Request.PUSH, dict(zip(self._servers, parts, strict=True)))
        # of each the most: who is held back by one server waits for all
        note = Note(*map(max, zip(*(note for note, _ in answers), strict=True)))
        self._note("staleness", note.staleness)
        if self._bounded:
            self._note("lead", note.lead)
        if note.held_s:
            self._note("held_s", note.held_s)
        self._held_s = note.held_s
        return self._taken(answers)

    def _note(self, name: str, value: float) -> None:
        self._noted.setdefault(name, []).append(value)

    def _pull(self) -> None:
        self._load(self._taken(self._ask(Request.PULL, dict.fromkeys(self._servers, b""))))

    def _taken(self, answers: list[tuple[Note, bytearray]]) -> Flat:
        """Return the weights in the servers' answers; keep them while that is checked."""
        weights = np.concatenate([np.frombuffer(part, np.float32) for _, part in answers])
        self._given = weights if self._unchecked else self._given[:0]
        return weights

    def _meet(self, values: Flat) -> Flat:
        """Return, when every worker has come, the mean of their values."""
        nothing = dict.fromkeys(self._servers, b"")
        answers = self._ask(Request.MEET, nothing | {self._servers[0]: values.tobytes()})
        return np.frombuffer(answers[0][1], np.float32)

    def _ask(
        self, request: Request, payloads: Mapping[int, Buffer]
    ) -> list[tuple[Note, bytearray]]:
        """Send each server its payload; return their answers."""
        for server, payload in payloads.items():
            self._peers.send(server, request.value)
            self._peers.send(server, payload)
        answers = [self._answer(server) for server in payloads]
        self._peers.flush()  # who has answered has got the request
        return answers

    def _answer(self, server: int) -> tuple[Note, bytearray]:
        while (note := self._peers.receive(server)) == NOT_YET:
            pass
        return Note(*NOTE_BYTES.unpack(note)), self._peers.receive(server)

    def barrier(self) -> None:
        self._meet(np.zeros(0, np.float32))

    def agree(self) -> None:
        """Take the servers' weights and the mean of the workers' moving statistics."""
        statistics = api.moving_statistics(self.model)
        api.assign(statistics, self._meet(api.flat(statistics).numpy()))
        self._pull()
        self.barrier()

    def observations(self) -> dict[str, list[float]]:
        """Return the staleness of each gradient; if the lead is bounded, leads and waits, too.

        `lead` is how many steps the worker was ahead of the slowest whenever it was free to begin
        the next step; `held_s`, how long it had to wait for that, if it had to.
        """
        noted, self._noted = self._noted, {}
        return noted

    def state(self) -> list[np.ndarray]:
        """Return this worker's variables and, on the first worker, what each server has.

        Collective: no worker trains on before the servers' state is read.
        """
        state = super().state()
        if self._job.rank == 0:
            answers = self._ask(Request.SAVE, dict.fromkeys(self._servers, b""))
            state += [np.frombuffer(saved, np.uint8) for _, saved in answers]
        self.barrier()
        return state

    def restore(self, state: list[np.ndarray]) -> None:
        """Set this worker to `state`; the first worker sets the servers, too. Collective.

        All workers then have the servers' weights. Gradients that wait for others to make an update
        with are forgotten.
        """
        own = len(self._variables())
        self.barrier()  # no gradient comes after it
        super().restore(state[:own])
        if self._job.rank == 0:
            saved = [part.tobytes() for part in state[own:]]
            self._ask(Request.RESTORE, dict(zip(self._servers, saved, strict=True)))
        self.barrier()
        self._pull()


def _check_optimizer(model: keras.Model) -> None:
    """Check that servers can do what the compiled optimizer does.

    Raises:
        RefusedError: it consists of several, scales the loss or averages weights, or callbacks
            change it.
    """
    optimizer = model.optimizer
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        raise RefusedError("the optimizer scales the loss, which servers do not know of")
    if inner_optimizers(optimizer) != [optimizer]:
        raise RefusedError(_SEVERAL)
    if optimizer is not None and optimizer.use_ema:
        raise RefusedError("the optimizer averages weights (use_ema), which servers do not give")
    if fit_options.of(model).callbacks:
        raise RefusedError("the model comes with callbacks, which do not reach servers' optimizers")

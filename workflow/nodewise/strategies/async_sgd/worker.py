"""Asynchronous SGD with parameter servers: every worker trains at its own pace.

A worker computes a gradient on the weights it has, pushes it to the servers and gets back their
current weights. It waits for no other worker, unless staleness is bounded. Servers are nodes of
their own. If there are several, each holds a part of the flat parameters and updates that part
independently.

Each server counts the workers' steps and holds back a worker that is too far ahead; the worker
trains on when all servers have answered. A meeting of all workers involves all servers, but only
the first server receives values and averages them.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import cast

import numpy as np
import tensorflow as tf
from typing_extensions import Buffer

from nodewise.core.errors import RefusedError
from nodewise.strategies import api, per_worker, replica
from nodewise.strategies.async_sgd import AsyncSgd
from nodewise.strategies.async_sgd.server import NOTE_BYTES, Note, Request, Server
from nodewise.strategies.async_sgd.server_part import SEVERAL, check_served, longest
from nodewise.strategies.async_sgd.staleness import Flat
from nodewise.strategies.calls import Calls

__all__ = ["Server", "Strategy"]

_CHECKED = 2  # number of first pushes that check that only the servers change the weights


class Pushing(replica.Replica):
    """A replica that pushes its gradients instead of updating its weights.

    `push` sends the gradient of all trained weights to the servers and returns their weights.
    """

    def __init__(self, job: api.Job, push: Callable[[tf.Tensor], tf.Tensor]) -> None:
        self._push = push
        super().__init__(job)

    def _train(self, batch: api.Batch, marks: list[list[tf.Tensor]] | None = None) -> api.Logs:
        """Train one step; append the times of its marks to `marks`, if given.

        Raises:
            RefusedError: the model trains without its optimizer.
        """
        self._pushes = 0  # in the step that is being traced
        logs = super()._train(batch, marks)
        if not self._pushes and not self._applies_inside:  # another graph is traced only once
            raise RefusedError("the model's train_step applies no gradient by its optimizer")
        return logs

    def _intervening(self, trace: replica.Trace) -> AbstractContextManager[None]:
        """Push gradients instead of applying them, while a step is traced."""
        return api.replaced_apply(self.model, partial(self._pushed, trace))

    def _pushed(
        self,
        trace: replica.Trace,
        apply: replica.Apply,
        grads: Iterable[replica.Gradient],
        trainable_variables: replica.Variables = None,
    ) -> None:
        """Push gradients to the servers and take their weights, in place of `apply`.

        Raises:
            RefusedError: the servers do not have the optimizer or a variable.
        """
        if apply.__self__ is not self.model.optimizer:
            raise RefusedError(SEVERAL)
        self._applies_inside |= tf.compat.v1.get_default_graph() is not trace.graph
        self._pushes += 1
        trained = self.model.trainable_variables
        variables = list(trainable_variables or trained)
        for other in {v.path for v in variables} - {v.path for v in trained}:
            raise RefusedError(f"train_step trains {other}, which is no weight of the model")
        given = zip(variables, grads, strict=True)
        known = {id(variable): one for variable, one in given if one is not None}
        dense = [
            tf.convert_to_tensor(known[id(v)]) if id(v) in known else tf.zeros(v.shape)
            for v in trained
        ]
        gradient = api.flat(dense) * (self._job.size * trace.share)
        ready = replica.after([gradient])
        with tf.control_dependencies([ready]):
            weights = self._push(tf.identity(gradient))
        weights = tf.ensure_shape(weights, gradient.shape)
        here = replica.after([weights])
        if trace.marks is not None:
            trace.marks.append([ready, ready, here])
        with tf.control_dependencies([here]):
            api.assign(trained, tf.identity(weights))


class Strategy(api.Strategy):
    """Trains as one of `job.size` workers. In `job.addresses` servers come after workers.

    It notes the `staleness` of each gradient and, if the lead is bounded, how many steps the worker
    was ahead of the slowest one when it was allowed to begin its next step (`lead`). `held_s` has
    an entry for each time the worker had to wait for that: the seconds that it waited.
    """

    replicas_agree = False

    def __init__(self, job: api.Job) -> None:
        super().__init__(job)
        self._bounded = cast(AsyncSgd, job.options).bound is not None
        self._held_s = 0.0  # how long the servers held this worker back in the last push
        self._unchecked = _CHECKED
        self._given = np.zeros(0, np.float32)  # the servers' last weights, while they are checked
        calls = Calls()
        self._raising = calls.raising
        self._replica = Pushing(job, partial(calls.call, self._push))
        self._step = self._replica.step
        self.model = self._replica.model
        check_served(self.model)
        if job.size > 1:
            per_worker.check_unsynchronized(self.model)
        self._load = tf.function(
            lambda weights: api.assign(self.model.trainable_variables, weights), autograph=False
        )
        self._peers = job.connect(servers=True)
        self._longest = longest(self.model)
        self._servers = range(job.size, len(job.addresses))
        self._pull()  # start with the servers' weights: an initializer may have no seed

    def split_step(self, batch: api.Batch) -> api.StepTimes:
        """Train one step in parts; `wait` is the time for which servers held this worker back."""
        with self._raising():
            times = self._replica.split_step(batch)
        return times._replace(wait=self._held_s, communicate=times.communicate - self._held_s)

    def _push(self, gradient: Flat) -> Flat:
        """Send each server its part of the gradient; return the new weights.

        Raises:
            RefusedError: the weights are not those that the servers sent.
        """
        if self._unchecked:
            self._unchecked -= 1
            own = np.concatenate([w.ravel().astype(np.float32) for w in self.weights()])
            if not np.array_equal(own, self._given, equal_nan=True):
                raise RefusedError(
                    "the model changes weights other than by its optimizer, which the servers "
                    "do not get"
                )
        parts = np.array_split(gradient, len(self._servers))
        answers = self._ask(Request.PUSH, [part.data for part in parts])
        # the maximum of each field: a worker that one server holds back waits for all answers
        note = Note(*map(max, zip(*(note for note, _ in answers), strict=True)))
        self.note("staleness", note.staleness)
        if self._bounded:
            self.note("lead", note.lead)
        if note.held_s:
            self.note("held_s", note.held_s)
        self._held_s = note.held_s
        return self._taken(answers)

    def _pull(self) -> None:
        self._load(self._taken(self._ask(Request.PULL)))

    def _taken(self, answers: list[tuple[Note, bytearray]]) -> Flat:
        """Join the weights in the servers' answers; remember them as long as they are checked."""
        weights = np.concatenate([np.frombuffer(part, np.float32) for _, part in answers])
        self._given = weights if self._unchecked else self._given[:0]
        return weights

    def _meet(self, values: Flat) -> Flat:
        """Wait until every worker has called this; return the mean of their values."""
        answers = self._ask(Request.MEET, [values.data, *[b""] * (len(self._servers) - 1)])
        return np.frombuffer(answers[0][1], np.float32)

    def _ask(
        self, request: Request, payloads: Sequence[Buffer] = ()
    ) -> list[tuple[Note, bytearray]]:
        """Send each server its payload, by default an empty one; return their answers."""
        payloads = payloads or [b""] * len(self._servers)
        for server, payload in zip(self._servers, payloads, strict=True):
            self._peers.send(server, request.value)
            self._peers.send(server, payload)
        answers = [
            (
                Note(*NOTE_BYTES.unpack(self._peers.receive(server))),
                self._peers.receive(server, self._longest),
            )
            for server in self._servers
        ]
        self._peers.flush()  # does not block: a server that answered has received the request
        return answers

    def barrier(self) -> None:
        self._meet(np.zeros(0, np.float32))

    def agree(self) -> None:
        """Take the servers' weights, and the mean of the workers' moving statistics."""
        statistics = api.moving_statistics(self.model)
        api.assign(statistics, self._meet(api.flat(statistics).numpy()))
        self._pull()
        self.barrier()

    def state(self) -> list[np.ndarray]:
        """Return this worker's variables; on the first worker also the state of each server.

        Collective: no worker trains on before the servers' state is read.
        """
        state = super().state()
        if self._job.rank == 0:
            state += [np.frombuffer(saved, np.uint8) for _, saved in self._ask(Request.SAVE)]
        self.barrier()
        return state

    def restore(self, state: list[np.ndarray]) -> None:
        """Set this worker to `state`; the first worker also sets the servers. Collective.

        Afterwards all workers have the servers' weights. Gradients that servers gathered for an
        update are discarded.
        """
        own = len(self._variables())
        self.barrier()  # no more gradients are pushed until the state is restored
        super().restore(state[:own])
        if self._job.rank == 0:
            self._ask(Request.RESTORE, [part.tobytes() for part in state[own:]])
        self.barrier()
        self._pull()

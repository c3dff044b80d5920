"""A compiled model that trains by its own `train_step`, with the gradients of all workers.

Whatever a model does in a step, it ends in its optimizer's `apply`. There, and nowhere else, a
strategy comes in: it exchanges the gradients first. Clipping, accumulation, averages of weights and
weight decay come after it, on the exchanged gradient. Horovod's Keras optimizer works this way
(Sergeev and Del Balso, arXiv:1802.05799).
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, Self, TypeAlias

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from nodewise.models.contents import examples_in, optimizers_of, plain_variables
from nodewise.strategies import api, per_worker

Gradient: TypeAlias = "tf.Tensor | tf.IndexedSlices | None"
OnGradients = Callable[[list[Gradient]], list[Gradient]]

BUCKET_BYTES = 1_000_000


class Exchange:
    """How workers exchange gradients: sums, and concatenations of the rows that all have.

    Of an embedding's gradient only some rows are there. Without `keeps_rows` it is filled up.
    """

    keeps_rows = True

    def sum(self, values: tf.Tensor) -> tf.Tensor:
        """Return the sum of `values`, float32 (entries,) on every worker, over the workers."""
        raise NotImplementedError

    def gradients(self, own: list[tf.Tensor]) -> list[tf.Tensor]:
        """Return what all workers apply, in place of their `own` float32 gradients: their sums.

        They are summed in buckets, those of the last layers first, in the order in which
        back-propagation makes them: sending a bucket begins when its gradients are there (Li et
        al., "PyTorch Distributed", VLDB 2020).
        """
        sums: list[tf.Tensor] = []
        for bucket in in_buckets(own[::-1]):
            sums += api.unflat(self.sum(api.flat(bucket)), bucket)
        return sums[::-1]

    def concat(self, rows: tf.Tensor) -> tf.Tensor:
        """Return the rows of all workers, (rows, …), in the order of ranks.

        A worker may come with more or fewer than another.
        """
        raise NotImplementedError

    @contextmanager
    def raising(self) -> Iterator[None]:
        """Raise the exchange's own error in place of TensorFlow's for it."""
        yield


class Replica:
    """A compiled model on plain variables of this process.

    `step` trains a step by the model's own `train_step`; `split_step` times its parts. With an
    `exchange`, what is applied is the sum of the workers' gradients, each weighted by the worker's
    share of the global batch: the mean over that, if each is the mean over the worker's examples.
    Without one, a gradient is applied that is as large as such a sum.
    """

    def __init__(self, job: api.Job, exchange: Exchange | None = None) -> None:
        keras.utils.set_random_seed(job.seed)
        self.model = job.build()
        self._job = job
        self._exchange = exchange
        self._marks: list[list[tf.Tensor]] | None = None
        self._graph: tf.Graph | None = None  # of the step that is traced
        self._inside = False  # gradients are applied in another graph, which the step runs
        for optimizer in optimizers_of(self.model):
            before_apply(optimizer, self._exchanged)
        # AutoGraph would leave a file per function: workers do not exit, they are ended
        self.step = tf.function(self._step, autograph=False)
        self._marked = tf.function(self._marked_step, autograph=False)
        build(self.model, self.step, job)
        if exchange is not None:
            self.start_alike(exchange)
        api.own_masks(self.model, job.rank)

    def start_alike(self, exchange: Exchange) -> None:
        """Give all workers the weights of the first one: an initializer may have no seed."""
        known = [*api.agreed(self.model), *plain_variables(self.model)]
        weights = [v for v in known if tf.as_dtype(v.dtype).is_floating]
        own = api.flat([tf.convert_to_tensor(variable.numpy()) for variable in weights])
        first = own if self._job.rank == 0 else tf.zeros_like(own)
        api.assign(weights, tf.function(exchange.sum, autograph=False)(first))

    def like(self, variables: list[keras.Variable]) -> Self:
        """Set what training changes to the values of `variables`, in their order."""
        for target, source in zip(api.changing(self.model), variables, strict=True):
            target.assign(source.numpy())
        return self

    def _step(self, batch: api.Batch) -> api.Logs:
        return self._train(batch, None)

    def _marked_step(self, batch: api.Batch) -> tf.Tensor:
        """Train a step; return, for each `apply` in it, the times of its marks, (applies, 3).

        Raises:
            NotTimedError: the marks are in other graphs.
        """
        marks: list[list[tf.Tensor]] = []
        self._train(batch, marks)
        if self._inside:
            raise api.NotTimedError
        return tf.stack([tf.stack(times) for times in marks])

    def _train(self, batch: api.Batch, marks: list[list[tf.Tensor]] | None) -> api.Logs:
        """Train a step; note its marks if there is a list for them."""
        self._share = examples_in(batch) / self._job.global_batch
        self._marks = marks
        self._graph = tf.compat.v1.get_default_graph()
        return api.numbers(self.model.train_step(batch))

    def split_step(self, batch: api.Batch) -> api.StepTimes:
        """Train a step, its parts timed apart."""
        began = time.time()  # the clock of tf.timestamp
        marks: NDArray[np.float64] = self._marked(batch).numpy()
        return step_times(began, marks, time.time())

    def _exchanged(self, gradients: list[Gradient]) -> list[Gradient]:
        """Return what an optimizer is to apply in place of its own `gradients`."""
        self._inside |= tf.compat.v1.get_default_graph() is not self._graph
        if self._marks is None:
            return self._sums(gradients)
        ready = after(gradients)
        if self._exchange is None:
            self._marks.append([ready, ready, ready])
            return self._sums(gradients)
        # a constant would be summed once, when TensorFlow simplifies the function
        met = after([self._exchange.sum(tf.reshape(tf.cast(ready, tf.float32), [1]))])
        with tf.control_dependencies([met]):
            total = self._sums([one if one is None else tf.identity(one) for one in gradients])
        exchanged = after(total)
        self._marks.append([ready, met, exchanged])
        with tf.control_dependencies([exchanged]):
            return [one if one is None else tf.identity(one) for one in total]

    def _sums(self, gradients: list[Gradient]) -> list[Gradient]:
        if self._exchange is None:
            return weighted(gradients, self._share * self._job.size)
        if not self._exchange.keeps_rows:
            gradients = [one if one is None else tf.convert_to_tensor(one) for one in gradients]
        dense = [one for one in gradients if one is not None and not _is_sparse(one)]
        own = [tf.cast(one, tf.float32) * self._share for one in dense]
        sums = iter(self._exchange.gradients(own) if dense else [])
        rows = partial(self._rows, self._exchange.concat)
        return [
            one if one is None else rows(one) if _is_sparse(one) else tf.cast(next(sums), one.dtype)
            for one in gradients
        ]

    def _rows(self, concat: Callable[[tf.Tensor], tf.Tensor], own: tf.IndexedSlices) -> Gradient:
        """Return the rows of all workers: added up, Adam would take other steps with them."""
        values = concat(own.values * tf.cast(self._share, own.values.dtype))
        return tf.IndexedSlices(values, concat(own.indices), own.dense_shape)


def in_buckets(tensors: Sequence[tf.Tensor]) -> list[list[tf.Tensor]]:
    """Return float32 `tensors` in groups, each closed when it has `BUCKET_BYTES` or more."""
    buckets: list[list[tf.Tensor]] = [[]]
    size = 0
    for one in tensors:
        if size >= BUCKET_BYTES:
            buckets.append([])
            size = 0
        buckets[-1].append(one)
        size += 4 * math.prod(one.shape)
    return buckets


def before_apply(optimizer: keras.optimizers.Optimizer, change: OnGradients) -> None:
    """Have `optimizer` apply what `change` makes of the gradients that it is given."""
    apply = optimizer.apply

    def changed(
        grads: Iterable[Gradient], trainable_variables: Iterable[keras.Variable] | None = None
    ) -> None:
        apply(change(list(grads)), trainable_variables)

    optimizer.apply = changed


def weighted(gradients: list[Gradient], weight: float) -> list[Gradient]:
    """Return `gradients` times `weight`."""
    return [one if one is None or weight == 1 else _times(one, weight) for one in gradients]


def _times(gradient: tf.Tensor | tf.IndexedSlices, weight: float) -> tf.Tensor | tf.IndexedSlices:
    if not _is_sparse(gradient):
        return gradient * weight
    return tf.IndexedSlices(gradient.values * weight, gradient.indices, gradient.dense_shape)


def build(model: keras.Model, step: Any, job: api.Job) -> None:  # noqa: ANN401
    """Have a model and its optimizers make their variables; trace the `step` if it can be."""
    api.draw_apart(job)
    if job.batch is not None:
        step.get_concrete_function(job.batch)
    elif model.optimizer is not None and model.built and not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)


def after(values: Sequence[Gradient]) -> tf.Tensor:
    """In a graph: return the time at which all of `values` were there."""
    with tf.control_dependencies([one for one in tf.nest.flatten(values) if one is not None]):
        return tf.timestamp()


def step_times(began: float, marks: NDArray[np.float64], ended: float) -> api.StepTimes:
    """Return the parts of a step from the times in it.

    `marks` are, for each time that an optimizer applied gradients, when these were ready, when the
    slowest worker had come, and when they were exchanged, (applies, 3). What is done between two
    such times, an update among it, counts as computing; so does a step in which none did.
    """
    if not len(marks):
        return api.StepTimes(compute=ended - began, wait=0.0, communicate=0.0, apply=0.0)
    ready, met, exchanged = marks.T
    computing = np.append([began], exchanged[:-1])
    return api.StepTimes(
        compute=float(np.sum(ready - computing)),
        wait=float(np.sum(met - ready)),
        communicate=float(np.sum(exchanged - met)),
        apply=float(ended - exchanged[-1]),
    )


def _is_sparse(gradient: Gradient) -> bool:
    return isinstance(gradient, tf.IndexedSlices)


class Strategy(api.Strategy):
    """Synchronous data parallelism: the base of strategies that exchange gradients.

    Without an exchange, one worker trains alone.
    """

    def __init__(self, job: api.Job, exchange: Exchange | None = None) -> None:
        self._job = job
        self._raising = exchange.raising if exchange else nullcontext
        with self._raising():
            self._replica = Replica(job, exchange)
        self.model = self._replica.model
        per_worker.check(self.model, job.size)
        self._sum = tf.function(exchange.sum, autograph=False) if exchange else None

    def step(self, batch: api.Batch) -> api.Logs:
        with self._raising():
            logs: api.Logs = self._replica.step(batch)
        return logs

    def split_step(self, batch: api.Batch) -> api.StepTimes:
        with self._raising():
            return self._replica.split_step(batch)

    def barrier(self) -> None:
        if self._sum is not None:
            with self._raising():
                self._sum(tf.zeros([1])).numpy()

    def agree(self) -> None:
        statistics = api.moving_statistics(self.model)
        if self._sum is not None and statistics:
            with self._raising():
                api.assign(statistics, self._sum(api.flat(statistics)) / self._job.size)

"""A compiled model that trains with its own `train_step` on the gradients of all workers.

Whatever a model does in a step, it ends with a call of its optimizer's `apply`. A strategy
intervenes only there: it exchanges the gradients first. Clipping, gradient accumulation, weight
averaging and weight decay follow, on the exchanged gradients. Horovod's Keras optimizer works the
same way (Sergeev and Del Balso, arXiv:1802.05799).
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property, partial
from types import MethodType
from typing import Any, NamedTuple, TypeAlias

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from nodewise.models.contents import examples_in, layers_in, plain_variables
from nodewise.strategies import api, per_worker

Gradient: TypeAlias = "tf.Tensor | tf.IndexedSlices | None"
Variables: TypeAlias = Iterable[keras.Variable] | None
Apply = MethodType  # of an optimizer

BUCKET_BYTES = 1_000_000


class Exchange:
    """How workers exchange gradients: by sums, and by concatenating the rows of sparse gradients.

    The gradient of an embedding contains only the rows of the batch. If `keeps_rows` is false, it
    is converted to a dense gradient before the exchange.
    """

    keeps_rows = True

    def sum(self, values: tf.Tensor) -> tf.Tensor:
        """Return the sum of `values` over all workers. They are float32, (entries,)."""
        raise NotImplementedError

    def gradients(self, own: list[tf.Tensor]) -> list[tf.Tensor]:
        """Return the sums over all workers of their `own` float32 gradients.

        Gradients are summed in buckets, starting with the last layers, in the order in which
        back-propagation computes them. A bucket is sent as soon as its gradients are ready (Li et
        al., "PyTorch Distributed", VLDB 2020).
        """
        sums: list[tf.Tensor] = []
        bucket: list[tf.Tensor] = []
        for number, one in enumerate(reversed(own), 1):
            bucket.append(one)
            size = sum(4 * math.prod(each.shape) for each in bucket)
            if size >= BUCKET_BYTES or number == len(own):
                sums += api.unflat(self.sum(api.flat(bucket)), bucket)
                bucket = []
        return sums[::-1]

    def concat(self, rows: tf.Tensor) -> tf.Tensor:
        """Return the rows of all workers, float32 or indices, (rows, …), in the order of ranks.

        Workers may have different numbers of rows.
        """
        raise NotImplementedError

    @contextmanager
    def raising(self) -> Iterator[None]:
        """Raise the original error of the exchange instead of TensorFlow's error for it."""
        yield

    @cached_property
    def _sum(self) -> Any:  # noqa: ANN401
        return tf.function(self.sum, autograph=False)

    def summed(self, values: tf.Tensor) -> tf.Tensor:
        """Return the same as `sum`, outside of a graph. Collective."""
        with self.raising():
            return self._sum(values)

    def barrier(self) -> None:
        """Wait until every worker has called this method."""
        self.summed(tf.zeros([1])).numpy()

    def average(self, variables: Sequence[keras.Variable], workers: int) -> None:
        """Set `variables`, the same ones on all `workers`, to their means. Collective."""
        if variables:
            own = api.flat([tf.convert_to_tensor(variable.numpy()) for variable in variables])
            api.assign(variables, self.summed(own) / workers)


class Trace(NamedTuple):
    """What the exchange of gradients needs to know of the step that is being traced.

    Attributes:
        share: the worker's share of the global batch.
        graph: the graph of the step.
        marks: where to append the times of each exchange; None if they are not wanted.
    """

    share: float
    graph: tf.Graph
    marks: list[list[tf.Tensor]] | None


class Replica:
    """A compiled model on plain variables of this process.

    `step` trains one step with the model's own `train_step`; `split_step` also times its parts.
    With an `exchange`, the optimizer applies the sum of the workers' gradients, each weighted by
    the worker's share of the global batch. If each gradient is the mean over the worker's examples,
    that sum is the mean over the global batch. Without an exchange, the worker's own gradient is
    scaled to the size of such a sum.
    """

    def __init__(self, job: api.Job, exchange: Exchange | None = None) -> None:
        keras.utils.set_random_seed(job.seed)
        self.model = job.build()
        self._job = job
        self._exchange = exchange
        self._applies_inside = False  # whether in another graph than the step's
        self.step = tf.function(self._train, autograph=False)
        self._marked = tf.function(self._marked_step, autograph=False)
        tf.random.set_seed(job.seed + job.rank)  # of functions that are traced later
        if job.batch is not None:
            api.note_written(self.model, self.step, job)
        elif self.model.built and not getattr(self.model.optimizer, "built", True):
            self.model.optimizer.build(self.model.trainable_variables)
        if exchange is not None:
            self.start_alike(exchange)
        api.set_dropout_seed(self.model, job.rank)

    def start_alike(self, exchange: Exchange) -> None:
        """Give all workers the weights of worker 0, because initializers may have no seed."""
        frozen = {id(v) for one in layers_in(self.model) if not one.trainable for v in one.weights}
        known = [*self.model.variables, *plain_variables(self.model)]
        weights = [v for v in known if id(v) not in frozen and tf.as_dtype(v.dtype).is_floating]
        own = api.flat([tf.convert_to_tensor(variable.numpy()) for variable in weights])
        first = own if self._job.rank == 0 else tf.zeros_like(own)
        api.assign(weights, exchange.summed(first))

    def _marked_step(self, batch: api.Batch) -> tf.Tensor:
        """Train one step; return the times of its marks for each `apply` in it, (applies, 3).

        They are when the gradients were ready, when the slowest worker arrived, and when the
        gradients were exchanged.

        Raises:
            NotTimedError: the marks are in other graphs.
        """
        marks: list[list[tf.Tensor]] = []
        self._train(batch, marks)
        if self._applies_inside:
            raise api.NotTimedError
        return tf.stack([tf.stack(times) for times in marks])

    def _train(self, batch: api.Batch, marks: list[list[tf.Tensor]] | None = None) -> api.Logs:
        """Train one step; append the times of its marks to `marks`, if given."""
        share = examples_in(batch) / self._job.global_batch
        trace = Trace(share, tf.compat.v1.get_default_graph(), marks)
        with self._intervening(trace):
            return api.numbers(self.model.train_step(batch))

    def _intervening(self, trace: Trace) -> AbstractContextManager[None]:
        """Exchange the gradients before the optimizers apply them, while a step is traced."""
        return changed_gradients(self.model, partial(self._exchanged, trace))

    def split_step(self, batch: api.Batch) -> api.StepTimes:
        """Train one step and time its parts.

        Time between an exchange and the next gradient, including an update, counts as computing. If
        no gradient was applied, the whole step counts as computing.
        """
        began = time.time()  # the clock of tf.timestamp
        marks: NDArray[np.float64] = self._marked(batch).numpy()
        ended = time.time()
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

    def _exchanged(self, trace: Trace, gradients: list[Gradient]) -> list[Gradient]:
        """Return the gradients that the optimizer applies instead of its own `gradients`."""
        # another graph is traced only once, also if several steps call it
        self._applies_inside |= tf.compat.v1.get_default_graph() is not trace.graph
        if trace.marks is None:
            return self._sums(trace.share, gradients)
        ready = after(gradients)
        if self._exchange is None:
            trace.marks.append([ready, ready, ready])
            return self._sums(trace.share, gradients)
        # not a constant: TensorFlow would sum it only once, when it simplifies the function
        met = after([self._exchange.sum(tf.reshape(tf.cast(ready, tf.float32), [1]))])
        with tf.control_dependencies([met]):
            total = self._sums(
                trace.share, [one if one is None else tf.identity(one) for one in gradients]
            )
        exchanged = after(total)
        trace.marks.append([ready, met, exchanged])
        with tf.control_dependencies([exchanged]):
            return [one if one is None else tf.identity(one) for one in total]

    def _sums(self, share: float, gradients: list[Gradient]) -> list[Gradient]:
        if self._exchange is None:
            return weighted(gradients, share * self._job.size)
        if not self._exchange.keeps_rows:
            gradients = [one if one is None else tf.convert_to_tensor(one) for one in gradients]
        dense = [one for one in gradients if one is not None and not _is_sparse(one)]
        own = [tf.cast(one, tf.float32) * share for one in dense]
        sums = iter(self._exchange.gradients(own) if dense else [])
        rows = partial(_rows, self._exchange.concat, share)
        return [
            one if one is None else rows(one) if _is_sparse(one) else tf.cast(next(sums), one.dtype)
            for one in gradients
        ]


def _rows(
    concat: Callable[[tf.Tensor], tf.Tensor], share: float, own: tf.IndexedSlices
) -> Gradient:
    """Return the rows of all workers. They are not added up: that would change Adam's steps."""
    values = tf.cast(concat(tf.cast(own.values, tf.float32) * share), own.values.dtype)
    return tf.IndexedSlices(values, concat(own.indices), own.dense_shape)


def changed_gradients(
    model: keras.Model, change: Callable[[list[Gradient]], list[Gradient]]
) -> AbstractContextManager[None]:
    """While a step is traced, let the optimizers apply the result of `change` to their gradients.

    `change` gets the gradients of one call of `apply`.
    """

    def apply_changed(
        apply: Apply, grads: Iterable[Gradient], trainable_variables: Variables = None
    ) -> None:
        apply(change(list(grads)), trainable_variables)

    return api.replaced_apply(model, apply_changed)


def weighted(gradients: list[Gradient], weight: float) -> list[Gradient]:
    """Return `gradients` multiplied by `weight`."""
    return [
        one if one is None or weight == 1 else tf.math.scalar_mul(weight, one) for one in gradients
    ]


def after(values: Sequence[Gradient]) -> tf.Tensor:
    """Return, inside a graph, the time at which all of `values` were computed."""
    with tf.control_dependencies([one for one in tf.nest.flatten(values) if one is not None]):
        return tf.timestamp()


def _is_sparse(gradient: Gradient) -> bool:
    return isinstance(gradient, tf.IndexedSlices)


class Strategy(api.Strategy):
    """Synchronous data parallelism: the base class of strategies that exchange gradients.

    Without an exchange, one worker trains alone.
    """

    def __init__(self, job: api.Job, exchange: Exchange | None = None) -> None:
        super().__init__(job)
        self._exchange = exchange
        self._replica = Replica(job, exchange)
        self._step = self._replica.step
        if exchange:
            self._raising = exchange.raising
        self.model = self._replica.model
        per_worker.check(self.model, job)

    def split_step(self, batch: api.Batch) -> api.StepTimes:
        with self._raising():
            return self._replica.split_step(batch)

    def barrier(self) -> None:
        if self._exchange:
            self._exchange.barrier()

    def agree(self) -> None:
        if self._exchange:
            self._exchange.average(api.moving_statistics(self.model), self._job.size)

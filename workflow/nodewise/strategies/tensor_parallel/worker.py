"""Tensor parallelism with DTensor: pairs of consecutive dense layers are split over the nodes.

Every node has some of the units of the first layer, and the weights of the second layer that belong
to these units' outputs (Shoeybi et al., arXiv:1909.08053). DTensor is only told where the weights
are. It works out what each node computes and inserts the collectives: for each pair, one sum of the
second layer's outputs and one sum of the gradients of the first layer's inputs. Every node computes
all other layers, including convolutions, for the whole global batch.

Keras cannot keep its variables in DTensors. Each node has plain variables for its own parts, which
are packed into DTensors for each step; the optimizer sees the parts.
"""

import faulthandler
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.experimental import dtensor

from nodewise.models.cut import padded, pairs, widened
from nodewise.strategies import api
from nodewise.strategies.parts import (
    mean_loss,
    optimizer_of_parts,
    refuse_constraints,
    scored,
    unpacked,
)

_NODES = "nodes"  # the mesh's only dimension


class Strategy(api.Strategy):
    """Trains parts of the weights; every batch is the global one.

    `model` has all weights, but the trained ones only after `agree`.
    """

    replicas_agree = False

    def __init__(self, job: api.Job) -> None:
        self._job = job
        self._mesh = _mesh(job)
        keras.utils.set_random_seed(job.seed)
        self.model = job.build()
        refuse_constraints(self.model.trainable_variables)
        self._split = widened(self.model, job.size)  # padded so that all parts have equal size
        self._widened = self._split is not self.model
        for own, wide in zip(_all(self.model), _all(self._split), strict=True):
            wide.assign(padded(own.numpy(), wide.shape))
        self._layouts = self._laid_out()
        self._parts = [
            keras.Variable(self._part(variable.numpy(), layout))
            for variable, layout in zip(self._split.trainable_variables, self._layouts, strict=True)
        ]
        self.optimizer = optimizer_of_parts(self.model)
        self.optimizer.build(self._parts)
        self._others = self._split.non_trainable_variables
        moving = {id(variable) for variable in api.changing(self._split)}
        self._moving = [n for n, other in enumerate(self._others) if id(other) in moving]
        self._real = self._where_weights_are()
        self._compute = tf.function(self._computed, autograph=False)
        self._apply = tf.function(self._applied, autograph=False)
        self._score = tf.function(self._scored, autograph=False)
        self._gather = tf.function(self._gathered, autograph=False)
        self._sum = tf.function(tf.reduce_sum, autograph=False)

    def _laid_out(self) -> list[dtensor.Layout]:
        """Return the layouts of the trainable weights: dense pairs are split, others replicated."""
        split: dict[int, list[str]] = {}
        for first, second in pairs(self._split):
            split[id(first.kernel)] = [dtensor.UNSHARDED, _NODES]
            split[id(second.kernel)] = [_NODES, dtensor.UNSHARDED]
            if first.use_bias:
                split[id(first.bias)] = [_NODES]
        return [
            dtensor.Layout(split[id(variable)], self._mesh)
            if id(variable) in split
            else self._replicated(len(variable.shape))
            for variable in self._split.trainable_variables
        ]

    def _replicated(self, rank: int) -> dtensor.Layout:
        return dtensor.Layout.replicated(self._mesh, rank)

    def _part(self, values: NDArray[np.generic], layout: dtensor.Layout) -> NDArray[np.generic]:
        """Return this node's part of `values`."""
        for axis, dimension in enumerate(layout.sharding_specs):
            if dimension == _NODES:
                values = np.split(values, self._job.size, axis)[self._job.rank]
        return values

    def _where_weights_are(self) -> list[tf.Tensor]:
        """Return this node's parts of masks: 1 for a weight of the model, 0 for padding."""
        ones = [np.ones(variable.shape, np.float32) for variable in self.model.trainable_variables]
        return [
            tf.constant(self._part(padded(own, wide.shape), layout))
            for own, wide, layout in zip(
                ones, self._split.trainable_variables, self._layouts, strict=True
            )
        ]

    def _computed(
        self, weights: list[tf.Tensor], others: list[tf.Tensor], x: tf.Tensor, y: tf.Tensor
    ) -> tuple[list[tf.Tensor], list[tf.Tensor], tf.Tensor]:
        """On DTensors, return the gradients, other changed variables, and the logits."""
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(weights)
            logits, after = self._split.stateless_call(weights, others, x, training=True)
            loss = mean_loss(self.model, y, logits)
        gradients = [
            dtensor.relayout(tf.convert_to_tensor(gradient), layout)
            for gradient, layout in zip(tape.gradient(loss, weights), self._layouts, strict=True)
        ]
        moved = self._gathered([after[number] for number in self._moving])
        return gradients, moved, self._gathered([logits])[0]

    def _applied(self, gradients: list[tf.Tensor], moved: list[tf.Tensor]) -> None:
        if self._widened:  # keep padding at 0, even if the activation of 0 is not 0
            gradients = [one * real for one, real in zip(gradients, self._real, strict=True)]
        self.optimizer.apply(gradients, self._parts)
        for number, value in zip(self._moving, moved, strict=True):
            self._others[number].assign(value)

    def _scored(self, logits: tf.Tensor, y: tf.Tensor) -> api.Logs:
        return scored(self.model, y, logits, mean_loss(self.model, y, logits))

    def _gathered(self, tensors: list[tf.Tensor]) -> list[tf.Tensor]:
        """Return DTensors that are replicated on every node."""
        return [dtensor.relayout(one, self._replicated(one.shape.rank)) for one in tensors]

    def _local_step(
        self, x: tf.Tensor, y: tf.Tensor
    ) -> tuple[list[tf.Tensor], list[tf.Tensor], tf.Tensor]:
        """Return this node's gradients, other changed variables, and the logits of all examples."""
        same = [*(tf.convert_to_tensor(other.value) for other in self._others), x, y]
        *others, x, y = (dtensor.pack([one], self._replicated(one.shape.rank)) for one in same)
        gradients, moved, logits = self._compute(self._packed(), others, x, y)
        return _local(gradients), _local(moved), _local([logits])[0]

    def _packed(self) -> list[tf.Tensor]:
        return [
            dtensor.pack([tf.convert_to_tensor(part.value)], layout)
            for part, layout in zip(self._parts, self._layouts, strict=True)
        ]

    def step(self, batch: api.Batch) -> api.Logs:
        """Train one step; the first worker returns the logs of all examples, others return none."""
        x, y = unpacked(batch)
        with _in_time(self._job.patience_s):
            gradients, moved, logits = self._local_step(x, y)
        self._apply(gradients, moved)
        return self._score(logits, y) if self._job.rank == 0 else {}

    def split_step(self, batch: api.Batch) -> api.StepTimes:
        """Train one step in parts; `communicate` is 0.

        Communicating and waiting take place during the computation and cannot be told from it.
        `wait` is only the time of a barrier before the step.
        """
        x, y = unpacked(batch)
        timer = api.StepTimer()
        self.barrier()
        timer.end("wait")
        with _in_time(self._job.patience_s):
            gradients, moved, _ = self._local_step(x, y)
        timer.end("compute")
        self._apply(gradients, moved)
        timer.end("apply")
        return timer.times()

    def barrier(self) -> None:
        own = dtensor.pack([tf.ones([1])], dtensor.Layout([_NODES], self._mesh))
        with _in_time(self._job.patience_s):
            _local([self._sum(own)])[0].numpy()

    def agree(self) -> None:
        """Give every worker all weights."""
        with _in_time(self._job.patience_s):
            whole = [*_local(self._gather(self._packed())), *self._others]
        for variable, value in zip(_all(self.model), whole, strict=True):
            variable.assign(value.numpy()[tuple(slice(length) for length in variable.shape)])

    def _variables(self) -> list[keras.Variable]:
        moving = [self._others[number] for number in self._moving]
        return [*self._parts, *moving, *self.optimizer.variables]


def _all(model: keras.Model) -> list[keras.Variable]:
    return [*model.trainable_variables, *model.non_trainable_variables]


@contextmanager
def _in_time(patience_s: float) -> Iterator[None]:
    """End this process if the block takes too long.

    Otherwise a collective would wait endlessly for a stuck node, and would block all of Python.
    """
    faulthandler.dump_traceback_later(patience_s, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def _local(tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Return this node's parts of DTensors."""
    return [dtensor.unpack(tensor)[0] for tensor in tensors]


def _mesh(job: api.Job) -> dtensor.Mesh:
    """Connect the workers; return a mesh with one processor of each."""
    os.environ |= {
        "DTENSOR_JOB_NAME": "worker",
        "DTENSOR_JOBS": ",".join(job.addresses[: job.size]),
        "DTENSOR_CLIENT_ID": str(job.rank),
    }
    dtensor.initialize_accelerator_system("CPU", enable_coordination_service=False)
    return dtensor.create_distributed_mesh([(_NODES, job.size)], device_type="CPU")

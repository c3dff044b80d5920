"""Data parallelism in which large dense layers are split over the workers.

Convolutions have few weights and much work, dense layers have many weights and little work.
Therefore every worker trains convolutions on its own examples, and an all-reduce sums their
gradients. The kernel of a dense layer is split by rows: each worker holds the weights of some of
the inputs, and computes with them for the examples of all workers (Krizhevsky, arXiv:1404.5997).
Instead of the gradient of its kernel, the inputs and outputs of the layer and their gradients are
sent. That is less if a worker's batch is smaller than the number of outputs.

A step equals that of a single process. A layer is split only where that saves bytes. If no layer is
split, this is plain data parallelism.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, cast

import keras
import numpy as np
import tensorflow as tf
from keras import layers
from numpy.typing import NDArray

from nodewise.models.contents import examples_in
from nodewise.models.layers import graph_calls
from nodewise.strategies import api
from nodewise.strategies.calls import Calls
from nodewise.strategies.parts import (
    mean_loss,
    optimizer_of_all,
    optimizer_of_parts,
    scored,
    unpacked,
)
from nodewise.strategies.split_dense import fewer_bytes
from nodewise.strategies.transport import Direct, Floats, Peers

Operation = Callable[[tf.Tensor], tf.Tensor]
OnArrays = Callable[[Floats], Floats]


class Strategy(api.Strategy):
    """Trains this worker's part of each split layer, and all other layers as a whole.

    `model` has the trained weights of split layers only after `agree`.
    """

    replicas_agree = False

    def __init__(self, job: api.Job) -> None:
        self._job = job
        workers = job.addresses[: job.size]
        self._direct = Direct(Peers(job.rank, workers, timeout_s=job.patience_s))
        self._calls = Calls()
        keras.utils.set_random_seed(job.seed)
        self.model = job.build()
        api.own_masks(self.model, job.rank)
        self._parts = {
            layer.name: Part(layer, self._direct, self._calls)
            for layer in self.model.layers
            if saves_bytes(layer, self.model, job)
        }
        self._split = self._with_parts()  # shares all other layers with `model`
        halves = self._parts and not api.moving_statistics(self.model)
        self._trained = Halves(self._split) if halves else self._split
        optimizer_of = optimizer_of_parts if self._parts else optimizer_of_all
        self.optimizer = optimizer_of(self.model)
        self.optimizer.build(self._split.trainable_variables)
        raising = self._calls.raising()
        self._compute = raising(tf.function(self._gradients, autograph=False))
        self._apply = tf.function(self._applied, autograph=False)
        self._step = raising(tf.function(self._fused, autograph=False))

    def _with_parts(self) -> keras.Model:
        """Return the model that this worker trains, in which parts replace the split layers."""
        if not self._parts:
            return self.model
        split = keras.models.clone_model(
            self.model, clone_function=lambda layer: self._parts.get(layer.name, layer)
        )
        for name, part in self._parts.items():
            whole = self.model.get_layer(name)
            part.kernel.assign(whole.kernel.numpy()[part.columns[self._job.rank]])
            if part.bias is not None:
                part.bias.assign(whole.bias.numpy())
        return split

    def _gradients(self, batch: api.Batch) -> tuple[list[tf.Tensor], api.Logs]:
        x, y = unpacked(batch)
        trained = self._trained.trainable_variables
        # by default a tape would also watch frozen variables and keep what their gradients need
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch([variable.value for variable in trained])
            outputs = self._trained(x, training=True)
            loss = mean_loss(self.model, y, outputs)
            part = loss * (examples_in(batch) / self._job.global_batch)
        # an embedding's gradient is sparse, and Adam treats sparse and dense gradients differently
        grads = [tf.convert_to_tensor(one) for one in tape.gradient(part, trained)]
        logs = scored(self.model, y, outputs, loss)
        # the gradients of these kernels already include the examples of all workers
        whole = {id(part.kernel) for part in self._parts.values()}
        weights = self._split.trainable_variables
        own = [grad for grad, w in zip(grads, weights, strict=True) if id(w) not in whole]
        summed = self._calls(self._direct.all_reduce, api.flat(own))
        total = iter(api.unflat(summed, own))
        return [
            grad if id(w) in whole else next(total) for grad, w in zip(grads, weights, strict=True)
        ], logs

    def _applied(self, gradients: Sequence[tf.Tensor]) -> None:
        self.optimizer.apply(gradients, self._split.trainable_variables)

    def _fused(self, batch: api.Batch) -> api.Logs:
        gradients, logs = self._gradients(batch)
        self._applied(gradients)
        return logs

    def step(self, batch: api.Batch) -> api.Logs:
        logs: api.Logs = self._step(batch)
        return logs

    def split_step(self, batch: api.Batch) -> api.StepTimes:
        """Train one step in parts; `communicate` is the time of the exchanges between computations.

        `wait` is the time of a barrier before the step. Waiting within the step counts as
        communicating.
        """
        timer = api.StepTimer()
        self.barrier()
        timer.end("wait")
        before = self._direct.seconds
        gradients, _ = self._compute(batch)
        communicate = self._direct.seconds - before
        timer.end("compute")
        self._apply(gradients)
        timer.end("apply")
        times = timer.times()
        return times._replace(compute=times.compute - communicate, communicate=communicate)

    def barrier(self) -> None:
        self._direct.all_gather(np.zeros(1, np.float32))

    def agree(self) -> None:
        """Give every worker all weights, and the mean of all moving statistics."""
        for name, part in self._parts.items():
            whole, rows = self.model.get_layer(name), self._direct.all_gather(part.kernel.numpy())
            whole.kernel.assign(np.concatenate(rows).reshape(whole.kernel.shape))
            if part.bias is not None:
                whole.bias.assign(part.bias.numpy())
        for variable in api.moving_statistics(self.model):
            total = self._direct.all_reduce(np.ravel(variable.numpy()))
            variable.assign(total.reshape(variable.shape) / self._job.size)

    def _variables(self) -> list[keras.Variable]:
        return api.changing(self._split, self.optimizer)


class Halves:
    """A model that computes the two halves of a batch one after the other.

    While one half is being exchanged in a split layer, TensorFlow computes the other half. This is
    not for models with batch normalisation, which needs the whole batch.
    """

    def __init__(self, model: keras.Model) -> None:
        self._model = model
        self.trainable_variables = model.trainable_variables

    def __call__(self, x: tf.Tensor, *, training: bool) -> tf.Tensor:
        """Return the model's outputs for x."""
        half = tf.shape(x)[0] // 2
        return tf.concat(
            [self._model(x[:half], training=training), self._model(x[half:], training=training)],
            axis=0,
        )


def saves_bytes(layer: keras.Layer, model: keras.Model, job: api.Job) -> bool:
    """Return whether a layer of `model` can be split and then sends less than its gradient."""
    own = job.global_batch // job.size  # some workers may have one more
    # a subclass, or a layer with LoRA, may compute something else
    if type(layer) is not layers.Dense or layer.lora_enabled or not layer.trainable:
        return False
    if layer.kernel_constraint or layer.bias_constraint:
        return False
    given = [node.input_tensors[0] for node in _nodes(model) if node.operation is layer]
    once = len(given) == 1 and len(given[0].shape) == 2  # used once, on 1-D inputs
    if not once or layer.dtype_policy.name != "float32" or own < 2:
        return False
    return fewer_bytes(*layer.kernel.shape, own=own, nodes=job.size)


def _nodes(model: keras.Model) -> list[Any]:
    """Return the calls of a model's layers, including inner models; empty without a graph."""
    if not getattr(model, "inputs", None):
        return []
    nodes = graph_calls(model)
    inner = {id(n.operation): n.operation for n in nodes if isinstance(n.operation, keras.Model)}
    return nodes + [node for one in inner.values() for node in _nodes(one)]


class Part(layers.Layer):  # type: ignore[misc]
    """One worker's part of a dense layer: the weights of its `columns` of the inputs.

    Each worker passes in the inputs of its own examples, (own, inputs), and gets their outputs,
    (own, outputs). In between it computes for the examples of all workers.
    """

    def __init__(self, whole: layers.Dense, direct: Direct, calls: Calls) -> None:
        super().__init__(name=whole.name)
        self._direct, self._calls = direct, calls
        inputs, self._units = whole.kernel.shape
        self._use_bias, self._activation = whole.use_bias, whole.activation
        ends = np.cumsum([len(one) for one in np.array_split(np.arange(inputs), direct.size)])
        self.columns = [slice(a, b) for a, b in pairwise([0, *ends.tolist()])]

    def build(self, input_shape: Sequence[int | None]) -> None:
        """Create the variables of the layer, with only this worker's rows of the kernel."""
        mine = self.columns[self._direct.rank]
        self.kernel = self.add_weight(shape=(mine.stop - mine.start, self._units), name="kernel")
        self.bias = self.add_weight(shape=(self._units,), name="bias") if self._use_bias else None

    def compute_output_shape(self, input_shape: Sequence[int | None]) -> tuple[int | None, ...]:
        """Return the shape of the outputs for the worker's own examples."""
        return input_shape[0], self._units

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Return the outputs for the worker's own examples."""
        examples = _Examples(self._direct, self.columns)
        mine = self._operation(examples.spread, examples.gather)(inputs)
        outputs = self._operation(examples.add_up, examples.repeat)(mine @ self.kernel)
        outputs = tf.ensure_shape(outputs, [None, self._units])
        if self.bias is not None:
            outputs += self.bias
        return self._activation(outputs)

    def _operation(self, forward: OnArrays, backward: OnArrays) -> Operation:
        """Return a differentiable matrix operation, given functions on arrays for both passes."""

        def operation(values: tf.Tensor) -> tuple[tf.Tensor, Operation]:
            def gradient(upstream: tf.Tensor) -> tf.Tensor:
                return tf.ensure_shape(self._calls(backward, upstream), values.shape)

            return tf.ensure_shape(self._calls(forward, values), [None, None]), gradient

        return cast(Operation, tf.custom_gradient(operation))


class _Examples:
    """Exchanges of one batch of examples in a split layer.

    In the shapes below, `own` is the number of this worker's examples, and `all` that of all
    workers' examples, in the order of ranks.
    """

    def __init__(self, direct: Direct, columns: Sequence[slice]) -> None:
        self._direct, self._columns = direct, columns
        self._ends: NDArray[np.int64]  # where each worker's examples end, known after `spread`

    def spread(self, inputs: Floats) -> Floats:
        """(own, inputs) -> (all, width): this worker's columns of everybody's inputs."""
        mine = self._columns[self._direct.rank]
        found = self._direct.all_to_all([inputs[:, columns] for columns in self._columns])
        everybodys = np.concatenate(found).reshape(-1, mine.stop - mine.start)
        self._ends = np.cumsum([one.size // everybodys.shape[1] for one in found])
        return everybodys

    def gather(self, gradient: Floats) -> Floats:
        """(all, width) -> (own, inputs): all columns of own examples; the gradient of `spread`."""
        found = self._direct.all_to_all(self._by_worker(gradient))
        return np.concatenate(
            [
                one.reshape(-1, columns.stop - columns.start)
                for one, columns in zip(found, self._columns, strict=True)
            ],
            axis=1,
        )

    def add_up(self, outputs: Floats) -> Floats:
        """(all, units) -> (own, units): the sum over the workers, that is, over all columns."""
        return self._direct.reduce_scatter(self._by_worker(outputs))

    def repeat(self, gradient: Floats) -> Floats:
        """(own, units) -> (all, units): the rows of all workers; the gradient of `add_up`."""
        found = self._direct.all_gather(gradient)
        return np.concatenate(found).reshape(-1, gradient.shape[1])

    def _by_worker(self, rows: Floats) -> list[Floats]:
        return np.split(rows, self._ends[:-1])

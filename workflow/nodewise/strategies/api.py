"""The interface of every strategy, and what several of them do with a model's variables."""

import hashlib
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from nodewise.models.contents import examples_in, layers_in, optimizers_of
from nodewise.strategies.declaration import NO_OPTIONS, Options

Batch = tuple[Any, ...]
"""What `fit` gives `train_step`: (x, y) or (x, y, sample_weight), each a structure of tensors."""
Logs = dict[str, tf.Tensor]
"""What `train_step` returns: the loss and the metrics so far, by name."""

PATIENCE_S = 60.0  # a peer that is silent for longer is an error, not a wait without end


@dataclass(frozen=True)
class Job:
    """One worker's place in the job and what it is to train.

    `build` returns a compiled model. `global_batch` is the number of examples per step over all
    workers. `addresses` are `host:port` of every place of the job, for a strategy that connects its
    workers itself: those of the workers, then of the servers. An epoch is `steps_per_epoch` steps.
    A peer that is silent for longer than `patience_s` is an error, where the strategy waits itself.
    `batch` describes a worker's batch, TensorSpecs in its structure: with it, what a model makes
    at its first step is there before.
    """

    rank: int
    size: int
    global_batch: int
    seed: int
    build: Callable[[], keras.Model]
    options: Options = NO_OPTIONS
    addresses: tuple[str, ...] = ()
    steps_per_epoch: int = 1
    patience_s: float = PATIENCE_S
    batch: Any = None


class StepTimes(NamedTuple):
    """Seconds of one split-form step: own gradient, waiting for the slowest, all-reduce, update."""

    compute: float
    wait: float
    communicate: float
    apply: float


class StepTimer:
    """Adds up the seconds of the parts of a split-form step, which take turns."""

    def __init__(self) -> None:
        self._seconds = dict.fromkeys(StepTimes._fields, 0.0)
        self._last = time.perf_counter()

    def end(self, part: str) -> None:
        """Count the time since the last call as time of `part`."""
        now = time.perf_counter()
        self._seconds[part] += now - self._last
        self._last = now

    def times(self) -> StepTimes:
        """Return what was counted."""
        return StepTimes(**self._seconds)


class Steps(NamedTuple):
    """Steps that were trained one after the other.

    `logs` are those of the last one. `input_s` and `step_s` have an entry a step: the seconds that
    it waited for its batch, and its seconds in all.
    """

    logs: dict[str, float]
    input_s: list[float]
    step_s: list[float]


class Strategy(ABC):
    """A strategy, as one worker of a job runs it.

    Every worker builds its replica with the same initial weights. `step` is the fused form, which
    is timed; `split_step` does the same update and times its four parts separately. If
    `replicas_agree`, all workers have the same weights after every step, which the training loop
    checks.

    The worker module of a strategy names its class `Strategy`. With servers it also has a class
    `Server`, which answers the workers from its creation on.
    """

    replicas_agree: bool = True
    model: keras.Model

    @abstractmethod
    def __init__(self, job: Job) -> None:
        """Build the replica. Collective: all workers of the job must be there."""

    @abstractmethod
    def step(self, batch: Batch) -> Logs:
        """Train one step on the worker's own examples; return what the model's train_step does.

        A worker that sees no outputs of the model returns nothing.
        """

    def train(self, stream: Iterator[Batch], steps: int) -> Iterator[Steps]:
        """Train `steps` steps on what `stream` gives next; yield what is done, some at a time.

        A step's time begins where that of the one before it ended. A strategy that loops over steps
        itself has a `train` of its own; its `stream` is an iterator of tf.data.
        """
        before = time.perf_counter()
        for _ in range(steps):
            batch = next(stream)
            fed = time.perf_counter()
            logs = plain(self.step(batch))
            ended = time.perf_counter()
            yield Steps(logs, [fed - before], [ended - before])
            before = ended

    @abstractmethod
    def split_step(self, batch: Batch) -> StepTimes:
        """Train one step like `step`, part by part. Its weights are those of `split_weights`."""

    @abstractmethod
    def barrier(self) -> None:
        """Return when every worker has called it."""

    @abstractmethod
    def agree(self) -> None:
        """Make the replicas equal where steps leave them different.

        The moving statistics of batch normalisation are averaged. Collective; not part of a step.
        """

    def trained(self) -> keras.Model:
        """Return the trained model on plain variables of this process; after `agree`."""
        return self.model

    def observations(self) -> dict[str, list[float]]:
        """Return the strategy's own measurements since the last call, by name."""
        return {}

    def weights(self) -> list[np.ndarray]:
        """Return the trainable weights that `step` updates, as arrays."""
        return [np.asarray(v.numpy()) for v in self.model.trainable_variables]

    def split_weights(self) -> list[np.ndarray]:
        """Return the trainable weights that `split_step` updates; some have a copy for it."""
        return self.weights()

    def weights_sha256(self) -> str:
        """Return a digest of `weights`: equal on two workers if and only if every bit is."""
        return hashlib.sha256(b"".join(w.tobytes() for w in self.weights())).hexdigest()

    def state(self) -> list[np.ndarray]:
        """Return a copy of all variables of model and optimizer that training changes."""
        return [np.array(v.numpy()) for v in self._variables()]

    def restore(self, state: list[np.ndarray]) -> None:
        """Set the variables of model and optimizer to what `state` returned."""
        for variable, value in zip(self._variables(), state, strict=True):
            variable.assign(value)

    def _variables(self) -> list[keras.Variable]:
        return changing(self.model)


def plain(logs: Logs) -> dict[str, float]:
    """Return logs as plain numbers; what is no number is left out, as nothing here shows it."""
    return {name: float(value) for name, value in logs.items() if tf.rank(value) == 0}


def changing(model: keras.Model, *optimizers: keras.optimizers.Optimizer) -> list[keras.Variable]:
    """Return the variables that training changes: all but those of frozen layers and metrics.

    States of recurrent layers are among them, which Keras does not count among a model's variables.
    Those of `optimizers` are among them, by default of the model's own.
    """
    left_out = {id(variable) for variable in [*_frozen(model), *model.metrics_variables]}
    kept = [variable for variable in model.variables if id(variable) not in left_out]
    of_optimizers = [
        variable
        for optimizer in optimizers or optimizers_of(model)
        for variable in optimizer.variables
    ]
    kept += [state for layer in stateful(model) for state in tf.nest.flatten(layer.states)]
    known = {id(variable) for variable in kept}
    return [*kept, *(variable for variable in of_optimizers if id(variable) not in known)]


def stateful(model: keras.Model) -> list[keras.layers.RNN]:
    """Return the recurrent layers whose states go on from one batch to the next."""
    return [
        layer
        for layer in layers_in(model)
        if isinstance(layer, keras.layers.RNN) and layer.stateful and layer.built
    ]


def make_variables(model: keras.Model, batch: Batch) -> None:
    """Have a model make the variables that it makes when it sees its first batch, by its spec.

    Those that it has already, such as states of its random generators, are as before.
    """
    before = [(variable, variable.numpy()) for variable in changing(model)]
    examples = examples_in(batch)
    zeros = tf.nest.map_structure(lambda spec: _zeros(spec, examples), batch)
    if model.loss is None and type(model).compute_loss is keras.Model.compute_loss:
        model(zeros[0], training=False)  # its train_step may have a loss
    else:
        model.test_on_batch(*zeros)
    for variable, value in before:
        variable.assign(value)
    model.reset_metrics()


def _zeros(spec: tf.TensorSpec | tf.RaggedTensorSpec, examples: int) -> tf.Tensor:
    if isinstance(spec, tf.RaggedTensorSpec):  # one value in each row
        values = tf.zeros([examples, *spec.shape[spec.ragged_rank + 1 :]], spec.dtype)
        return tf.RaggedTensor.from_nested_row_lengths(values, [[1] * examples] * spec.ragged_rank)
    return tf.zeros(spec.shape, spec.dtype)


def moving_statistics(model: keras.Model) -> list[keras.Variable]:
    """Return the variables that a step changes without a gradient, but for counters and seeds."""
    frozen = {id(variable) for variable in _frozen(model)}
    return [
        variable
        for variable in model.non_trainable_variables
        if id(variable) not in frozen and "float" in variable.dtype
    ]


def agreed(model: keras.Model) -> list[keras.Variable]:
    """Return what workers agree on in the end: the weights, then the moving statistics."""
    return [*model.trainable_variables, *moving_statistics(model)]


def seeds(model: keras.Model) -> list[keras.Variable]:
    """Return the states of the model's random generators, (2,) each: a seed, and what it counts."""
    return [v for v in model.variables if v.path.endswith("seed_generator_state")]


def own_masks(model: keras.Model, replica: int) -> None:
    """Give a replica random numbers of its own, such as the masks of dropout.

    Built with one seed, all would drop the same units of their examples. Replica 0 keeps what it
    has.
    """
    for variable in seeds(model):
        variable.assign(variable.numpy() + np.array([replica, 0]))


def _frozen(layer: keras.Layer) -> list[keras.Variable]:
    if not layer.trainable:
        return list(layer.variables)
    return [variable for inner in getattr(layer, "layers", ()) for variable in _frozen(inner)]


def flat(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Return all entries of `tensors`, which may be none, in one buffer, (entries,), float32."""
    if not tensors:
        return tf.zeros([0])
    return tf.concat([tf.reshape(tf.cast(one, tf.float32), [-1]) for one in tensors], axis=0)


def unflat(buffer: tf.Tensor, like: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Return what `flat` made one buffer of, in the shapes and types of `like`."""
    if not like:
        return []
    parts = tf.split(buffer, [math.prod(one.shape) for one in like])
    return [
        tf.cast(tf.reshape(part, one.shape), one.dtype)
        for part, one in zip(parts, like, strict=True)
    ]


def assign(variables: Sequence[keras.Variable], buffer: tf.Tensor) -> None:
    """Set `variables` to what `flat` made one buffer of."""
    for variable, value in zip(variables, unflat(buffer, variables), strict=True):
        variable.assign(value)

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

from nodewise.models.contents import layers_in, optimizers_of, plain_variables, unseeded
from nodewise.strategies.declaration import NO_OPTIONS, Options

Batch = Any
"""What `fit` gives `train_step`: (x, y), (x, y, sample_weight) or x alone, each of tensors."""
Logs = dict[str, tf.Tensor]
"""What a step returns: the loss and the metrics so far, by name."""

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


class NotTimedError(Exception):
    """The parts of a step cannot be timed apart: the model exchanges in a graph of its own.

    Such as in a `tf.function` that it calls, or in a branch.
    """


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
        """Train one step like `step`, part by part. Its weights are those of `split_weights`.

        Raises:
            NotTimedError: the model does not permit it; nothing was trained.
        """

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
    """Return logs as plain numbers."""
    return {name: float(value) for name, value in logs.items()}


def numbers(logs: dict[str, Any]) -> Logs:
    """Return the numbers in what `train_step` returned, those of dicts beside the others, as `fit`.

    Anything else, such as the outputs, is left out: nothing here shows it.
    """
    found: Logs = {}
    for name, value in logs.items():
        if isinstance(value, dict):  # the results of several metrics
            found |= numbers(value)
            continue
        try:
            tensor = tf.convert_to_tensor(value)
        except (TypeError, ValueError):
            continue
        if tensor.shape.rank == 0 and tensor.dtype != tf.string:
            found[name] = tensor
    return found


def changing(model: keras.Model, *optimizers: keras.optimizers.Optimizer) -> list[keras.Variable]:
    """Return the variables that training changes: all but those of metrics and frozen weights.

    Those that Keras does not count among a model's variables are among them, too: states of
    recurrent layers, TensorFlow's own variables, the state of Keras' random generator; and those of
    `optimizers`, by default of the model's own.
    """
    left_out = {id(variable) for variable in [*_frozen(model), *model.metrics_variables]}
    kept = [variable for variable in model.variables if id(variable) not in left_out]
    of_optimizers = [
        variable
        for optimizer in optimizers or optimizers_of(model)
        for variable in optimizer.variables
    ]
    kept += [state for layer in stateful(model) for state in tf.nest.flatten(layer.states)]
    kept += [*plain_variables(model), unseeded().state]
    known = {id(variable) for variable in kept}
    return [*kept, *(variable for variable in of_optimizers if id(variable) not in known)]


def stateful(model: keras.Model) -> list[keras.layers.RNN]:
    """Return the recurrent layers whose states go on from one batch to the next."""
    return [
        layer
        for layer in layers_in(model)
        if isinstance(layer, keras.layers.RNN) and layer.stateful and layer.built
    ]


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
    """Return the states of the random generators, (2,) each: a seed, and what it counts.

    They are those of the model, and the one by which Keras draws where it was given no seed.
    """
    own = [v for v in model.variables if v.path.endswith("seed_generator_state")]
    return [*own, unseeded().state]


def draw_apart(job: Job) -> None:
    """Have a worker's `tf.random` draw other numbers than the first worker's, if traced later."""
    if job.rank > 0:
        tf.random.set_seed(job.seed + job.rank)


def own_masks(model: keras.Model, replica: int) -> None:
    """Give a replica random numbers of its own, such as the masks of dropout.

    Built with one seed, all would drop the same units of their examples. Replica 0 keeps what it
    has.
    """
    for variable in seeds(model):
        variable.assign(variable.numpy() + np.array([replica, 0]))


def _frozen(layer: keras.Layer) -> list[keras.Variable]:
    """Return the weights of frozen layers; their random generators go on."""
    if not layer.trainable:
        return list(layer.weights)
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

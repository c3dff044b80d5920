"""The interface of all strategies, and helpers for the variables of a model."""

import hashlib
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from nodewise.core.errors import RefusedError
from nodewise.core.units import counted
from nodewise.models import contents
from nodewise.strategies.declaration import Options
from nodewise.strategies.transport import Peers

Batch = Any
"""What `fit` passes to `train_step`: (x, y), (x, y, sample_weight) or x alone, as tensors."""
Logs = dict[str, tf.Tensor]
"""The result of a training step: the loss and the metrics so far, by name."""


@dataclass(frozen=True)
class Job:
    """A worker's place in the job, and what it trains.

    Attributes:
        rank: the index of this process. Workers come first, then servers.
        size: the number of workers, or of devices if a single process trains on several.
        global_batch: the number of examples per step over all workers.
        seed: the seed of the initial weights and of all random numbers.
        build: returns a compiled model.
        options: the options of the strategy.
        addresses: `host:port` of every process of the job, for strategies that connect their
            processes themselves: workers first, then servers.
        steps_per_epoch: the number of steps in an epoch.
        batch: the TensorSpecs of a worker's batch, nested like the batch. If given, variables that
            a model creates in its first step are created before training begins. parameter_server
            needs it.
        token: a secret of the job, by which its processes know each other.
    """

    rank: int
    size: int
    global_batch: int
    seed: int
    build: Callable[[], keras.Model]
    options: Options = field(default_factory=Options)
    addresses: tuple[str, ...] = ()
    steps_per_epoch: int = 1
    batch: Any = None
    token: str = ""

    def connect(self, *, servers: bool = False) -> Peers:
        """Connect this process with all other workers, and with `servers`, if asked. Collective."""
        addresses = self.addresses if servers else self.addresses[: self.size]
        return Peers(self.rank, addresses, token=self.token)


class StepTimes(NamedTuple):
    """Seconds of the parts of one `split_step`.

    The parts are computing the worker's own gradient, waiting for the slowest worker, the
    all-reduce, and the update.
    """

    compute: float
    wait: float
    communicate: float
    apply: float


class NotTimedError(Exception):
    """The parts of a step cannot be timed separately.

    The strategy does not know them, or the model applies gradients in another graph than that of
    the step, for example in a `tf.function` that it calls, or in a branch.
    """


class StepTimer:
    """Measures how many seconds each part of a step takes. Parts may alternate."""

    def __init__(self) -> None:
        self._seconds = dict.fromkeys(StepTimes._fields, 0.0)
        self._last = time.perf_counter()

    def end(self, part: str) -> None:
        """Add the time since the last call to `part`."""
        now = time.perf_counter()
        self._seconds[part] += now - self._last
        self._last = now

    def times(self) -> StepTimes:
        """Return the seconds of each part so far."""
        return StepTimes(**self._seconds)


class Steps(NamedTuple):
    """Results of consecutive training steps.

    Attributes:
        logs: the logs of the last step.
        input_s: for each step, the seconds that it waited for its batch.
        step_s: for each step, its total seconds, including `input_s`.
    """

    logs: dict[str, float]
    input_s: list[float]
    step_s: list[float]


class Strategy(ABC):
    """A training strategy, as seen by one worker of a job.

    Every worker builds a replica with the same initial weights. `step` is used for timing whole
    steps. `split_step` makes the same update, but times its four parts separately. If
    `replicas_agree` is true, all workers have the same weights after every step; the training loop
    checks this.

    The worker module of a strategy has `Strategy`, which is called with a job. If the strategy has
    servers, the module also has `Server`, which answers the workers as soon as it is created.
    """

    replicas_agree: bool = True
    model: keras.Model

    _step: Callable[[Batch], Logs]

    def __init__(self, job: Job) -> None:
        """Build the replica. Collective: all workers of the job must call it."""
        self._job = job
        self._noted: dict[str, list[float]] = {}
        self._raising: Callable[[], AbstractContextManager[None]] = nullcontext

    def step(self, batch: Batch) -> Logs:
        """Train one step on the worker's own examples; return the logs of the model's `train_step`.

        A worker that does not see the outputs of the model returns an empty dict. By default, this
        calls `_step` in the context `_raising`, which explains errors.
        """
        with self._raising():
            return self._step(batch)

    def train(self, stream: Iterator[Batch], steps: int) -> Iterator[Steps]:
        """Train `steps` steps on batches from `stream`; yield results for one or more steps each.

        The time of a step starts when the previous step ends. A strategy that runs its own loop
        over steps overrides this method; its `stream` is then a tf.data iterator.
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
        """Train one step like `step`, but time its parts. It may train a copy of the model.

        Raises:
            NotTimedError: the parts of this model's step cannot be timed; nothing was trained.
        """

    @abstractmethod
    def barrier(self) -> None:
        """Wait until every worker has called this method."""

    @abstractmethod
    def agree(self) -> None:
        """Make the replicas equal where training steps leave them different.

        The moving statistics of batch normalisation are averaged. Collective; not part of a step.
        """

    def trained(self) -> keras.Model:
        """Return the trained model on plain variables of this process. Call it after `agree`."""
        return self.model

    def evaluate(self, batches: Iterator[Batch]) -> dict[str, float]:
        """Return the logs of the trained model on all of `batches`. Call it after `agree`."""
        model = self.trained()
        model.reset_metrics()
        step = tf.function(
            lambda batch: numbers(model.test_step(batch)), reduce_retracing=True, autograph=False
        )
        logs: dict[str, float] = {}
        for batch in batches:
            logs = plain(step(batch))
        return logs

    def device(self) -> str:
        """Return the name of the device that this worker computes with."""
        if gpus := tf.config.get_visible_devices("GPU"):
            details = [tf.config.experimental.get_device_details(gpu) for gpu in gpus]
            return ", ".join(one.get("device_name") or "GPU" for one in details)
        threads = tf.config.threading.get_intra_op_parallelism_threads()
        return f"CPU, {counted(threads, 'thread')}"

    def note(self, name: str, value: float) -> None:
        """Record a measurement of the strategy's own."""
        self._noted.setdefault(name, []).append(value)

    def observations(self) -> dict[str, list[float]]:
        """Return the strategy's own measurements since the last call, by name."""
        noted, self._noted = self._noted, {}
        return noted

    def weights(self) -> list[np.ndarray]:
        """Return the trainable weights that `step` updates, as arrays."""
        return [np.asarray(v.numpy()) for v in self.model.trainable_variables]

    def weights_sha256(self) -> str:
        """Return the SHA-256 of what is trained: equal on two workers if every bit is."""
        plain = filter(is_trained, contents.plain_variables(self.model))
        arrays = [*self.weights(), *(np.asarray(v.numpy()) for v in plain)]
        return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()

    def state(self) -> list[np.ndarray]:
        """Return copies of all model and optimizer variables that training changes."""
        return [np.array(v.numpy()) for v in self._variables()]

    def restore(self, state: list[np.ndarray]) -> None:
        """Set the model and optimizer variables to values returned by `state`."""
        for variable, value in zip(self._variables(), state, strict=True):
            variable.assign(value)

    def _variables(self) -> list[keras.Variable]:
        return changing(self.model)


def plain(logs: Logs) -> dict[str, float]:
    """Convert logs to Python floats."""
    return {name: float(value) for name, value in logs.items()}


def numbers(logs: dict[str, Any]) -> Logs:
    """Keep only the scalars of a `train_step` result; flatten nested dicts, as `fit` does.

    All other values, such as the model's outputs, are dropped: nothing here displays them.
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


def changing(model: keras.Model) -> list[keras.Variable]:
    """Return the variables that training changes: all except metrics.

    These include frozen weights that a step writes, as of a teacher, and what Keras does not list:
    states of recurrent layers, variables of optimizers, plain ones, the global random generator's.
    """
    held = [*model.variables, *contents.plain_variables(model, (tf.Variable, keras.Variable))]
    still = [one for one in model.non_trainable_variables if not _is_written(model, one)]
    left_out = {id(variable) for variable in [*model.metrics_variables, *still]}
    found = {id(variable): variable for variable in [*held, contents.unseeded().state]}
    return [variable for key, variable in found.items() if key not in left_out]


def is_trained(variable: keras.Variable | tf.Variable) -> bool:
    """Return whether a variable may be trained by gradients."""
    return bool(variable.trainable) and tf.as_dtype(variable.dtype).is_floating


def stateful(model: keras.Model) -> list[keras.layers.RNN]:
    """Return the recurrent layers that carry their states over from one batch to the next."""
    return [
        layer
        for layer in contents.layers_in(model)
        if isinstance(layer, keras.layers.RNN) and layer.stateful and layer.built
    ]


def moving_statistics(model: keras.Model) -> list[keras.Variable]:
    """Return the variables that a step changes without a gradient, except counters and seeds."""
    others = model.non_trainable_variables
    return [one for one in others if "float" in one.dtype and _is_written(model, one)]


def note_written(model: keras.Model, step: Callable[[Batch], Logs], job: Job) -> None:
    """Note in a model which variables its step writes, and hold those that nothing else holds.

    Raises:
        RefusedError: nothing holds one of them, and several workers have to start alike.
    """
    written = contents.written_by(step, job.batch)
    known = [*changing(model), *model.metrics_variables]
    held = {handle: id(variable) for variable in known for handle in _handles(variable)}
    model.only_in_closures = [one for handle, one in written.items() if handle not in held]
    for variable in model.only_in_closures if job.size > 1 else ():
        raise RefusedError(
            f"train_step changes {variable.name}, which no attribute of the model leads to; assign "
            "to the model what holds it, such as an optimizer or a layer"
        )
    model.written = frozenset(held[handle] for handle in written.keys() & held.keys())


def _is_written(model: keras.Model, variable: keras.Variable) -> bool:
    """Return whether a step writes a variable; true if that is not known."""
    return id(variable) in getattr(model, "written", [id(variable)])


def _handles(variable: Any) -> list[int]:  # noqa: ANN401
    """Return what identifies a variable in a graph: one number for each device with a copy."""
    own = variable.value if isinstance(variable, keras.Variable) else variable
    return [id(copy.handle) for copy in getattr(own, "values", [own])]


def agreed(model: keras.Model) -> list[keras.Variable]:
    """Return the variables that `agree` makes equal: trainable weights, then moving statistics."""
    return [*model.trainable_variables, *moving_statistics(model)]


def seeds(model: keras.Model) -> list[keras.Variable]:
    """Return the states of a model's random generators and of Keras' global one: seed, counter."""
    own = [v for v in model.variables if v.path.endswith("seed_generator_state")]
    return [*own, contents.unseeded().state]


def set_dropout_seed(model: keras.Model, replica: int) -> None:
    """Give a replica its own random numbers, for example for the masks of dropout.

    All replicas are built with the same seed, so they would otherwise drop the same units. Replica
    0 keeps its generators.
    """
    for variable in seeds(model):
        variable.assign(variable.numpy() + np.array([replica, 0]))


def flat(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Concatenate all entries of `tensors` into one float32 tensor, (entries,). It may be empty."""
    if not tensors:
        return tf.zeros([0])
    return tf.concat([tf.reshape(tf.cast(one, tf.float32), [-1]) for one in tensors], axis=0)


def unflat(buffer: tf.Tensor, like: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Split a buffer made by `flat` into tensors with the shapes and types of `like`."""
    if not like:
        return []
    parts = tf.split(buffer, [math.prod(one.shape) for one in like])
    return [
        tf.cast(tf.reshape(part, one.shape), one.dtype)
        for part, one in zip(parts, like, strict=True)
    ]


def assign(variables: Sequence[keras.Variable], buffer: tf.Tensor) -> None:
    """Assign to `variables` the values in a buffer made by `flat`."""
    for variable, value in zip(variables, unflat(buffer, variables), strict=True):
        variable.assign(value)


@contextmanager
def replaced_apply(model: keras.Model, by: Callable[..., None]) -> Iterator[None]:
    """While a step is traced, call `by` instead of the `apply` of the model's optimizers.

    `by` gets the optimizer's own `apply`, and then its arguments: gradients and variables.
    """
    applies = [(optimizer, optimizer.apply) for optimizer in contents.optimizers_of(model)]
    for optimizer, apply in applies:
        optimizer.apply = partial(by, apply)
    try:
        yield
    finally:
        for optimizer, apply in applies:
            optimizer.apply = apply

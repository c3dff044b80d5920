"""The interface of every strategy, and the model replica that most of them train."""

import hashlib
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import keras
import numpy as np
import tensorflow as tf

from nodewise.core.errors import RefusedError
from nodewise.models.training import Loss, cross_entropy
from nodewise.strategies.declaration import NO_OPTIONS, Options

_OF_EACH_WEIGHT = (
    *(keras.optimizers.SGD, keras.optimizers.RMSprop, keras.optimizers.Lion, keras.optimizers.Ftrl),
    *(keras.optimizers.Adam, keras.optimizers.AdamW, keras.optimizers.ScheduleFreeAdamW),
    *(keras.optimizers.Nadam, keras.optimizers.Adamax),
    *(keras.optimizers.Adagrad, keras.optimizers.Adadelta),
)
_OF_WHOLE_VARIABLES = (keras.optimizers.Adafactor, keras.optimizers.Lamb, keras.optimizers.Muon)

PATIENCE_S = 60.0  # a peer that is silent for longer is an error, not a wait without end


@dataclass(frozen=True)
class Job:
    """One worker's place in the job and what it is to train.

    `global_batch` is the number of examples per step over all workers: gradients are sums over
    the local examples divided by it, so that their sum over workers is the mean over the global
    batch, also when workers hold different numbers of examples. `loss` takes labels and logits and
    returns one loss per example. `addresses` are `host:port` of every place of the job, for a
    strategy that connects its workers itself: those of the workers, then of the servers.
    An epoch is `steps_per_epoch` steps. A peer that is silent for longer than `patience_s` is an
    error, where the strategy waits itself.
    """

    rank: int
    size: int
    global_batch: int
    seed: int
    build: Callable[[], keras.Model]
    optimizer: Callable[[], keras.optimizers.Optimizer]
    loss: Loss = cross_entropy
    options: Options = NO_OPTIONS
    addresses: tuple[str, ...] = ()
    steps_per_epoch: int = 1
    patience_s: float = PATIENCE_S


class StepTimes(NamedTuple):
    """Seconds of one split-form step: own gradient, waiting for the slowest, all-reduce, update."""

    compute: float
    wait: float
    communicate: float
    apply: float


class Steps(NamedTuple):
    """Fused steps that were trained one after the other.

    `scores` is the sum of what the steps return, (2,). `input_s` and `step_s` have an entry a step:
    the seconds that it waited for its batch, and its seconds in all.
    """

    scores: np.ndarray
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
    optimizer: keras.optimizers.Optimizer

    @abstractmethod
    def __init__(self, job: Job) -> None:
        """Build the replica. Collective: all workers of the job must be there."""

    @abstractmethod
    def step(self, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        """Train one step on the worker's own examples.

        Args:
            x: the worker's part of the global batch, (examples, …).
            y: its labels, (examples,), integer.

        Returns:
            float32 (2,): sum of losses and number of right answers over the worker's own examples.
        """

    def train(self, stream: Iterator[tuple[tf.Tensor, tf.Tensor]], steps: int) -> Iterator[Steps]:
        """Train `steps` steps on what `stream` gives next; yield what is done, some at a time.

        A step's time begins where that of the one before it ended. A strategy that loops over steps
        itself has a `train` of its own; its `stream` is an iterator of tf.data.
        """
        before = time.perf_counter()
        for _ in range(steps):
            x, y = next(stream)
            fed = time.perf_counter()
            scores = self.step(x, y).numpy()
            ended = time.perf_counter()
            yield Steps(scores, [fed - before], [ended - before])
            before = ended

    @abstractmethod
    def split_step(self, x: tf.Tensor, y: tf.Tensor) -> StepTimes:
        """Train one step like `step`, part by part. Its weights are those of `split_weights`."""

    @abstractmethod
    def barrier(self) -> None:
        """Return when every worker has called it."""

    @abstractmethod
    def agree(self) -> None:
        """Make the replicas equal where steps leave them different.

        The moving statistics of batch normalisation are averaged. Collective; not part of a step.
        """

    def observations(self) -> dict[str, list[float]]:
        """Return the strategy's own measurements since the last call, by name."""
        return {}

    def weights(self) -> list[np.ndarray]:
        """Return the trainable weights that `step` updates, as float32 arrays."""
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
        return changing(self.model, self.optimizer)


def changing(model: keras.Model, optimizer: keras.optimizers.Optimizer) -> list[keras.Variable]:
    """Return the variables that training changes: all but those of frozen layers."""
    frozen = {id(variable) for variable in _frozen(model)}
    kept = [variable for variable in model.variables if id(variable) not in frozen]
    return [*kept, *optimizer.variables]


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


def gradients(
    model: keras.Model, job: Job, x: tf.Tensor, y: tf.Tensor
) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Return the local part of the global batch's mean gradient, and [loss sum, right answers]."""
    # a tape of its own accord watches frozen variables, too, and keeps what they need
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch([variable.value for variable in model.trainable_variables])
        logits = model(x, training=True)
        loss_sum = tf.reduce_sum(job.loss(y, logits))
        loss = loss_sum / job.global_batch
    found = tape.gradient(loss, model.trainable_variables)
    # an embedding's is sparse, with which Adam does other steps than with the same as a tensor
    return [tf.convert_to_tensor(g) for g in found], score(loss_sum, logits, y)


def score(loss_sum: tf.Tensor, logits: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Return float32 (2,): `loss_sum` and the number of right answers."""
    right = tf.equal(tf.argmax(logits, axis=1, output_type=tf.int32), tf.cast(y, tf.int32))
    return tf.stack([loss_sum, tf.reduce_sum(tf.cast(right, tf.float32))])


def flat(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Return all entries of `tensors`, which may be none, in one buffer, (entries,)."""
    if not tensors:
        return tf.zeros([0])
    return tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], axis=0)


def unflat(buffer: tf.Tensor, like: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Return what `flat` made one buffer of, in the shapes of `like`."""
    if not like:
        return []
    parts = tf.split(buffer, [math.prod(one.shape) for one in like])
    return [tf.reshape(part, one.shape) for part, one in zip(parts, like, strict=True)]


def assign(variables: Sequence[keras.Variable], buffer: tf.Tensor) -> None:
    """Set `variables` to what `flat` made one buffer of."""
    for variable, value in zip(variables, unflat(buffer, variables), strict=True):
        variable.assign(value)


def clips(optimizer: keras.optimizers.Optimizer) -> bool:
    """Tell whether an optimizer clips gradients: those of all workers together, it must be."""
    limits = (optimizer.clipnorm, optimizer.global_clipnorm, optimizer.clipvalue)
    return any(limit is not None for limit in limits)


def optimizer_of_parts(job: Job) -> keras.optimizers.Optimizer:
    """Return the job's optimizer for nodes of which each has parts of the variables.

    Raises:
        RefusedError: it may not treat each weight for itself.
    """
    optimizer = job.optimizer()
    if optimizer.clipnorm is not None or optimizer.global_clipnorm is not None:
        raise RefusedError(
            "the optimizer's clipnorm needs the gradients of all nodes; use clipvalue"
        )
    if type(optimizer) not in _OF_EACH_WEIGHT:  # what a subclass does is not known
        kind = type(optimizer).__name__
        raise RefusedError(f"the optimizer {kind} is not known to treat each weight for itself")
    return optimizer


def optimizer_of_stage(job: Job) -> keras.optimizers.Optimizer:
    """Return the job's optimizer for nodes of which each has some variables, whole ones.

    Raises:
        RefusedError: it may not treat each variable for itself.
    """
    optimizer = job.optimizer()
    if optimizer.global_clipnorm is not None:
        raise RefusedError(
            "the optimizer's global_clipnorm needs the gradients of all stages; use clipnorm"
        )
    if type(optimizer) not in (*_OF_EACH_WEIGHT, *_OF_WHOLE_VARIABLES):
        kind = type(optimizer).__name__
        raise RefusedError(f"the optimizer {kind} is not known to treat each variable for itself")
    return optimizer


def refuse_constraints(variables: Iterable[keras.Variable]) -> None:
    """Check that variables of which a node has other ones, or parts, are under no constraint.

    Raises:
        RefusedError: one is.
    """
    for variable in variables:
        if variable.constraint is not None:
            raise RefusedError(f"{variable.path} has a constraint, which needs all of it")


class Replica:
    """A model and its optimizer on plain variables of this process.

    `gradient` and `apply` are the two halves of `step`. In between, gradients are one flat float32
    buffer in the order of `model.trainable_variables`, for a collective to sum.
    """

    def __init__(self, job: Job) -> None:
        keras.utils.set_random_seed(job.seed)
        self.model = job.build()
        own_masks(self.model, job.rank)
        self.optimizer = job.optimizer()
        self.optimizer.build(self.model.trainable_variables)
        self._job = job
        # AutoGraph would leave a file per function: workers do not exit, they are ended
        self.gradient = tf.function(self._gradient, autograph=False)
        self.scored_gradient = tf.function(self._scored_gradient, autograph=False)
        self.apply = tf.function(self._apply, autograph=False)
        self.step = tf.function(self._step, autograph=False)

    def like(self, variables: Sequence[keras.Variable]) -> Self:
        """Set what training changes to the values of `variables`, in their order."""
        for target, source in zip(changing(self.model, self.optimizer), variables, strict=True):
            target.assign(source.numpy())
        return self

    def split_step(
        self,
        x: tf.Tensor,
        y: tf.Tensor,
        barrier: Callable[[], None],
        all_reduce: Callable[[tf.Tensor], tf.Tensor],
    ) -> StepTimes:
        """Train a step of synchronous data parallelism, its parts timed apart."""
        marks = [time.perf_counter()]
        gradient = self.gradient(x, y)
        marks.append(time.perf_counter())
        barrier()
        marks.append(time.perf_counter())
        total = all_reduce(gradient)
        marks.append(time.perf_counter())
        self.apply(total)
        marks.append(time.perf_counter())
        return StepTimes(*np.diff(marks).tolist())

    def _gradient(self, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return self._scored_gradient(x, y)[0]

    def _scored_gradient(self, x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        grads, scores = gradients(self.model, self._job, x, y)
        return flat(grads), scores

    def _apply(self, gradient: tf.Tensor) -> None:
        weights = self.model.trainable_variables
        self.optimizer.apply(unflat(gradient, weights), weights)

    def _step(self, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        grads, scores = gradients(self.model, self._job, x, y)
        self.optimizer.apply(grads, self.model.trainable_variables)
        return scores

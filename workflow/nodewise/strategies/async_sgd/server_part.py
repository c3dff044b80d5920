"""The part of a model's parameters that one server holds, and the optimizer that updates it.

Imports TensorFlow.
"""

import math

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from nodewise.core.errors import RefusedError
from nodewise.models import fit_options
from nodewise.models.contents import inner_optimizers, traced
from nodewise.strategies import api
from nodewise.strategies.parts import check_optimizer
from nodewise.strategies.transport import SHORT

SEVERAL = "the model has several optimizers, and this strategy's servers one"


class Part:
    """Part `number` of `parts` of the flat parameters, as `np.array_split` divides them.

    The optimizer updates the model's own variables where they lie completely in this part, and
    pieces of variables elsewhere. That makes no difference to optimizers that update each parameter
    independently, such as SGD and Adam.

    Raises:
        RefusedError: it would make a difference to a constraint, or servers cannot do it.
    """

    def __init__(self, job: api.Job, number: int, parts: int) -> None:
        keras.utils.set_random_seed(job.seed)
        model = job.build()
        check_served(model)
        self._optimizer = model.optimizer
        if job.batch is not None:  # a model may create its variables when it sees a batch
            # without the optimizer, which is built below, for this part
            with api.replaced_apply(model, lambda *_, **__: None):
                traced(model.train_step, job.batch)
        self.longest = longest(model)
        if parts > 1:
            check_optimizer(self._optimizer, model.trainable_variables)
        self._variables = _pieces(model, number, parts)
        # the same learning rate or schedule, multiplied by the factor of each update
        self._rates, self._factor = job.build().optimizer, tf.Variable(1.0)
        self._optimizer.learning_rate = lambda: self._rates.learning_rate * self._factor
        self._optimizer.build(self._variables)
        self._update = tf.function(self._apply, autograph=False)
        self.weights: NDArray[np.float32] = api.flat(self._variables).numpy()

    def apply(self, gradient: NDArray[np.float32], factor: float) -> None:
        """Update `weights`, (parameters of this part,), with the learning rate times `factor`."""
        # a Python number would cause a new trace for each of its values
        self.weights = self._update(gradient, tf.constant(factor, tf.float32)).numpy()

    def _apply(self, gradient: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
        self._factor.assign(factor)
        # the first variable counts steps; `iterations` is none if gradients are accumulated
        self._rates.variables[0].assign(self._optimizer.variables[0])
        self._optimizer.apply(api.unflat(gradient, self._variables), self._variables)
        return api.flat(self._variables)

    def saved(self) -> bytes:
        """Return the parameters and the optimizer's variables, in the format of `restore`."""
        saved: bytes = api.flat(self._changing()).numpy().tobytes()
        return saved

    def restore(self, saved: bytes | bytearray) -> None:
        """Set the parameters and the optimizer to the state that `saved` returned."""
        api.assign(self._changing(), np.frombuffer(saved, np.float32))
        self.weights = api.flat(self._variables).numpy()

    def _changing(self) -> list[keras.Variable]:
        return [*self._variables, *self._optimizer.variables]


def check_served(model: keras.Model) -> None:
    """Check that servers can do what the compiled optimizer does.

    Raises:
        RefusedError: it consists of several optimizers, scales the loss or averages weights; or the
            model comes with callbacks, which may change it.
    """
    optimizer = model.optimizer
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        raise RefusedError("the optimizer scales the loss, which servers do not know of")
    if inner_optimizers(optimizer) != [optimizer]:
        raise RefusedError(SEVERAL)
    if optimizer is not None and optimizer.use_ema:
        raise RefusedError("the optimizer averages weights (use_ema), which servers do not give")
    if fit_options.of(model).callbacks:
        raise RefusedError("the model comes with callbacks, which do not reach servers' optimizers")


def longest(model: keras.Model) -> int:
    """Return the most bytes of a message about a model: its weights with an optimizer's state."""
    weights: int = sum(math.prod(weight.shape) for weight in model.weights)
    return SHORT + 8 * 4 * weights  # no optimizer keeps more than seven numbers per weight


def _pieces(model: keras.Model, number: int, parts: int) -> list[keras.Variable]:
    """Return the variables of one part: whole ones as they are, and flat pieces of others."""
    variables, optimizer = model.trainable_variables, model.optimizer
    flat = np.concatenate([variable.numpy().ravel() for variable in variables])
    start, stop = np.cumsum([0, *map(len, np.array_split(flat, parts))])[number : number + 2]
    key = optimizer._var_key  # noqa: SLF001 (there is no public way to exclude pieces, too)
    excluded = getattr(optimizer, "_exclude_from_weight_decay", set[str]())
    pieces, offset = [], 0
    for variable in variables:
        size = int(np.prod(variable.shape))
        low, high = max(start, offset), min(stop, offset + size)
        if high - low == size:
            pieces.append(variable)
        elif low < high:
            pieces.append(keras.Variable(flat[low:high], name=variable.name))
            if key(variable) in excluded:
                excluded.add(key(pieces[-1]))
        offset += size
    return pieces

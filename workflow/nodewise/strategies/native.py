"""The base of tf.distribute strategies, which build a model in a scope and train as `fit` does.

In that scope a Keras optimizer itself sums the gradients over the replicas.
"""

import re
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import keras
import tensorflow as tf

from nodewise.core.errors import RefusedError, UserError
from nodewise.models import contents
from nodewise.strategies import api, per_worker

_PROBLEMS = {
    "merge_call": "applies gradients in a tf.function or a branch of its own, which hides them",
    "Unknown variable": "trains a layer that call() does not build; build it where it is made",
}


class Strategy(api.Strategy):
    """A strategy of tf.distribute; its model is built in the scope and trains as `fit` does."""

    def __init__(self, job: api.Job, strategy: tf.distribute.Strategy, title: str) -> None:
        """Build the model in the scope of `strategy`, whose name in error messages is `title`.

        Raises:
            RefusedError: the optimizer would use the gradient of one replica instead of the sum, or
                would get gradients in another graph than the step's; or the weights have a type
                that TensorFlow's collectives do not support.
        """
        super().__init__(job)
        self._raising = partial(refusing, title)
        self._step = tf.function(self._fused, autograph=False)
        with strategy.scope():
            keras.utils.set_random_seed(job.seed)
            try:
                self.model = job.build()
            except (tf.errors.InvalidArgumentError, UserError) as error:
                reason = str(error.__cause__ or error)  # errors in a user's function are wrapped
                if "Collective" in reason and (kind := re.search(r"'T' of (\w+) is not", reason)):
                    raise RefusedError(
                        f"{title} cannot send the model's weights in {kind[1]}; custom_loop can"
                    ) from None
                raise
            _check(self.model, job, title)
            tf.random.set_seed(job.seed + job.rank)  # of functions that are traced later
            contents.draw_in_threads(self.model)
            if job.batch is not None:
                with self._raising():
                    self._make_variables(job.batch)
            elif not self.model.optimizer.built:
                self.model.optimizer.build(self.model.trainable_variables)
        if job.batch is not None:
            with self._raising():  # outside of the scope, as training, which uses this trace
                api.note_written(self.model, self._step, job)
        _check(self.model, job, title)  # again: an optimizer may choose inner ones when it is built
        per_worker.check_added(self.model, job)

    def _make_variables(self, batch: api.Batch) -> None:
        """Make the model create the variables that its step cannot create."""

    @abstractmethod
    def _fused(self, batch: api.Batch) -> api.Logs:
        """Train one step, inside a graph."""

    def trained(self) -> keras.Model:
        """Return a new model on plain variables, with the values of the trained one."""
        copy = self._job.build()
        if self._job.batch is not None:
            api.note_written(copy, tf.function(copy.train_step, autograph=False), self._job)
        models, plain = (copy, self.model), contents.plain_variables
        targets, sources = ([*one.variables, *plain(one)] for one in models)
        for target, source in zip(targets, sources, strict=True):
            target.assign(source.numpy())
        return copy


@contextmanager
def refusing(title: str) -> Iterator[None]:
    """Raise a one-line error where the strategy called `title` cannot run the model's step.

    Raises:
        RefusedError: it cannot.
    """
    try:
        yield
    except (RuntimeError, UserError) as error:  # errors in a user's function are wrapped
        for sign, problem in _PROBLEMS.items():
            if sign in str(error.__cause__ or error):
                raise RefusedError(f"{title}: the model's train_step {problem}") from None
        raise


def _check(model: keras.Model, job: api.Job, title: str) -> None:
    whole = contents.optimizers_of(model)
    inner = [one for optimizer in whole for one in contents.inner_optimizers(optimizer)]
    for name in ("gradient_accumulation_steps", "ema_overwrite_frequency"):
        if any(getattr(one, name) for one in inner):
            raise RefusedError(
                f"{title} and {name} do not go together in Keras; custom_loop permits it"
            )
    if job.size == 1:
        return
    if any(isinstance(one, keras.optimizers.LossScaleOptimizer) for one in whole):
        raise RefusedError(
            f"{title} has the optimizer look for an overflow in each replica's gradient, not in "
            "their sum; custom_loop looks at the sum"
        )
    if any(one.clipnorm or one.global_clipnorm or one.clipvalue for one in inner):
        raise RefusedError(
            f"{title} has the optimizer clip each replica's gradient, not their sum; custom_loop "
            "clips the sum"
        )

"""What strategies of tf.distribute share: the model is built in a scope and trains as in `fit`.

In there a Keras optimizer sums the gradients over the replicas itself.
"""

from collections.abc import Callable

import keras
import tensorflow as tf

from nodewise.core.errors import RefusedError, UserError
from nodewise.models.contents import make_all_variables, optimizers_of
from nodewise.strategies import api


def build(
    job: api.Job,
    strategy: tf.distribute.Strategy,
    title: str,
    make_variables: Callable[[keras.Model, api.Batch], None],
) -> keras.Model:
    """Return the job's model, built in the scope of `strategy`; `title` is what people call that.

    `make_variables` has the model make those that it makes when it sees a batch.

    Raises:
        RefusedError: its optimizer would look at the gradients of one replica, not at their sum,
            or its weights have a type that TensorFlow's collectives have not.
    """
    with strategy.scope():
        keras.utils.set_random_seed(job.seed)
        try:
            model = job.build()
        except (tf.errors.InvalidArgumentError, UserError) as error:
            reason = str(error.__cause__ or error)  # a user's function has a line of its own for it
            if "Collective" in reason and "bfloat16" in reason:
                raise RefusedError(
                    f"{title} cannot send the model's weights in bfloat16; mixed_bfloat16 keeps "
                    "them in float32"
                ) from None
            raise
        for optimizer in optimizers_of(model):
            _check(optimizer, job, title)
        if job.batch is not None:
            make_variables(model, job.batch)
        elif not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
    return model


def _check(optimizer: keras.optimizers.Optimizer, job: api.Job, title: str) -> None:
    if optimizer.gradient_accumulation_steps:
        raise RefusedError(
            f"{title} and gradient_accumulation_steps do not go together in Keras; custom_loop "
            "accumulates"
        )
    if job.size == 1:
        return
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        raise RefusedError(
            f"{title} has the optimizer look for an overflow in each replica's gradient, not in "
            "their sum; custom_loop looks at the sum"
        )
    if any((optimizer.clipnorm, optimizer.global_clipnorm, optimizer.clipvalue)):
        raise RefusedError(
            f"{title} has the optimizer clip each replica's gradient, not their sum; custom_loop "
            "clips the sum"
        )


def plain_copy(job: api.Job, variables: list[keras.Variable]) -> keras.Model:
    """Return the job's model on plain variables, with the values of `variables` of another one."""
    model = job.build()
    if job.batch is not None:
        make_all_variables(model, job.batch)
    for target, source in zip(model.variables, variables, strict=True):
        target.assign(source.numpy())
    return model

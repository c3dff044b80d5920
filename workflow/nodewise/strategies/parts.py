"""Checks and helpers for strategies that give each node only a part of the model.

These strategies compute the gradient of one loss of one output themselves, and update each node's
variables with an optimizer of its own. They refuse models that do anything else in `train_step`.
"""

from collections.abc import Iterable

import keras
import tensorflow as tf

from nodewise.core.errors import RefusedError
from nodewise.models import fit_options
from nodewise.models.contents import inner_optimizers
from nodewise.strategies import per_worker
from nodewise.strategies.api import Batch, Logs, numbers, stateful

_OF_EACH_WEIGHT = (
    *(keras.optimizers.SGD, keras.optimizers.RMSprop, keras.optimizers.Lion, keras.optimizers.Ftrl),
    *(keras.optimizers.Adam, keras.optimizers.AdamW, keras.optimizers.ScheduleFreeAdamW),
    *(keras.optimizers.Nadam, keras.optimizers.Adamax),
    *(keras.optimizers.Adagrad, keras.optimizers.Adadelta),
)
_OF_WHOLE_VARIABLES = (keras.optimizers.Adafactor, keras.optimizers.Lamb, keras.optimizers.Muon)


def optimizer_of_parts(model: keras.Model) -> keras.optimizers.Optimizer:
    """Return the model's optimizer if it can train nodes that each hold parts of the variables.

    Raises:
        RefusedError: it is not known to update each weight independently, or the model does more in
            a step than one gradient of one loss.
    """
    optimizer = optimizer_of_all(model)
    refuse_more_than_each_weight(optimizer)
    return optimizer


def refuse_more_than_each_weight(optimizer: keras.optimizers.Optimizer) -> None:
    """Check that the optimizer trains parts of variables exactly as it would train whole ones.

    Raises:
        RefusedError: it is not known to update each weight independently, or it already has a
            state, which is that of whole variables.
    """
    _refuse_state(optimizer)
    if optimizer.clipnorm is not None or optimizer.global_clipnorm is not None:
        raise RefusedError(
            "the optimizer's clipnorm needs the gradients of all nodes; use clipvalue"
        )
    if type(optimizer) not in _OF_EACH_WEIGHT:  # a subclass could do anything
        kind = type(optimizer).__name__
        raise RefusedError(f"the optimizer {kind} is not known to treat each weight for itself")


def _refuse_state(optimizer: keras.optimizers.Optimizer) -> None:
    if optimizer.built and int(optimizer.iterations) > 0:
        raise RefusedError(
            "the saved model has the state of its optimizer, which this strategy would begin anew; "
            "compile it again in a build()"
        )


def optimizer_of_stage(model: keras.Model) -> keras.optimizers.Optimizer:
    """Return the model's optimizer if it can train nodes that each hold some whole variables.

    Raises:
        RefusedError: it is not known to update each variable independently, or the model does more
            in a step than one gradient of one loss.
    """
    optimizer = optimizer_of_all(model)
    if optimizer.global_clipnorm is not None:
        raise RefusedError(
            "the optimizer's global_clipnorm needs the gradients of all stages; use clipnorm"
        )
    if type(optimizer) not in (*_OF_EACH_WEIGHT, *_OF_WHOLE_VARIABLES):
        kind = type(optimizer).__name__
        raise RefusedError(f"the optimizer {kind} is not known to treat each variable for itself")
    return optimizer


def refuse_constraints(variables: Iterable[keras.Variable]) -> None:
    """Check that none of the variables has a constraint, since a node may not hold all of it.

    Raises:
        RefusedError: one has.
    """
    for variable in variables:
        if variable.constraint is not None:
            raise RefusedError(f"{variable.path} has a constraint, which needs all of it")


def optimizer_of_all(model: keras.Model) -> keras.optimizers.Optimizer:
    """Return the optimizer of a model whose training step is one gradient of one loss.

    Raises:
        RefusedError: the model's training step does anything else.
    """
    for method in ("train_step", "compute_loss"):
        if getattr(type(model), method) is not getattr(keras.Model, method):
            raise RefusedError(f"the model has a {method} of its own, and this strategy cuts it")
    options = fit_options.of(model)
    if options.class_weight or options.callbacks:
        what = "class weights" if options.class_weight else "callbacks"
        raise RefusedError(f"the model comes with {what}, and this strategy cuts it")
    if not hasattr(model, "outputs"):
        raise RefusedError(
            "this strategy needs a Sequential or functional model with a keras.Input"
        )
    if isinstance(model.loss, dict | list | tuple) or len(model.outputs or [None]) > 1:
        raise RefusedError("this strategy cuts the model, which must have one output and one loss")
    if model.losses:
        raise RefusedError("the model adds losses of its own, and this strategy cuts it")
    reduction = getattr(model.loss, "reduction", "sum_over_batch_size")
    if reduction not in ("sum_over_batch_size", "mean"):
        raise RefusedError(f"the loss has the reduction {reduction}; this strategy needs a mean")
    per_worker.check_unsynchronized(model)
    for layer in stateful(model):
        raise RefusedError(f"the layer {layer.name} is stateful, and this strategy cuts the model")
    optimizer = model.optimizer
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        raise RefusedError("the optimizer scales the loss, and this strategy cuts the model")
    if any(one.use_ema for one in inner_optimizers(optimizer)):
        raise RefusedError("the optimizer averages weights (use_ema), which nobody here would use")
    _refuse_state(optimizer)
    return optimizer


def unpacked(batch: Batch) -> tuple[tf.Tensor, tf.Tensor]:
    """Return x and y of a batch, which must be one tensor each.

    Raises:
        RefusedError: the batch has any other structure.
    """
    parted = isinstance(batch, tuple) and len(batch) == 2
    if not parted or not all(tf.is_tensor(part) for part in batch):
        raise RefusedError("this strategy cuts the model: it takes one input and one label tensor")
    x, y = batch
    return x, y


def scored(model: keras.Model, y: tf.Tensor, outputs: tf.Tensor, loss: tf.Tensor) -> Logs:
    """Update the model's metrics as its `train_step` would; return their results.

    `loss` is the mean over the examples of `outputs`.
    """
    for metric in model.metrics:
        if metric.name == "loss":
            metric.update_state(loss, sample_weight=tf.shape(outputs)[0])
    return numbers(model.compute_metrics(None, y, outputs))


def mean_loss(model: keras.Model, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
    """Return the model's loss, averaged over the examples."""
    return model.compute_loss(None, y, outputs, training=True)

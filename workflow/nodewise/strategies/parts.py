"""What strategies need of a model that gives each node only a part of it.

They compute the gradient themselves, of one loss of one output, and have an optimizer for the
node's own variables. Whatever else a compiled model may do in its `train_step` is refused here.
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
    """Return a model's optimizer for nodes of which each has parts of the variables.

    Raises:
        RefusedError: it may not treat each weight for itself, or the model does more in a step.
    """
    optimizer = optimizer_of_all(model)
    refuse_more_than_each_weight(optimizer)
    return optimizer


def refuse_more_than_each_weight(optimizer: keras.optimizers.Optimizer) -> None:
    """Check that an optimizer trains parts of the variables as it would train all of them.

    Raises:
        RefusedError: it may not treat each weight for itself, or has a state, of whole variables.
    """
    _refuse_state(optimizer)
    if optimizer.clipnorm is not None or optimizer.global_clipnorm is not None:
        raise RefusedError(
            "the optimizer's clipnorm needs the gradients of all nodes; use clipvalue"
        )
    if type(optimizer) not in _OF_EACH_WEIGHT:  # what a subclass does is not known
        kind = type(optimizer).__name__
        raise RefusedError(f"the optimizer {kind} is not known to treat each weight for itself")


def _refuse_state(optimizer: keras.optimizers.Optimizer) -> None:
    if optimizer.built and int(optimizer.iterations) > 0:
        raise RefusedError(
            "the saved model has the state of its optimizer, which this strategy would begin anew; "
            "compile it again in a build()"
        )


def optimizer_of_stage(model: keras.Model) -> keras.optimizers.Optimizer:
    """Return a model's optimizer for nodes of which each has some variables, whole ones.

    Raises:
        RefusedError: it may not treat each variable for itself.
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
    """Check that variables of which a node has other ones, or parts, are under no constraint.

    Raises:
        RefusedError: one is.
    """
    for variable in variables:
        if variable.constraint is not None:
            raise RefusedError(f"{variable.path} has a constraint, which needs all of it")


def optimizer_of_all(model: keras.Model) -> keras.optimizers.Optimizer:
    """Return the optimizer of a model whose step consists of one gradient of one loss.

    Raises:
        RefusedError: it does something else.
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
    """Return x and y of a batch, one tensor each.

    Raises:
        RefusedError: it has more.
    """
    parted = isinstance(batch, tuple) and len(batch) == 2
    if not parted or not all(tf.is_tensor(part) for part in batch):
        raise RefusedError("this strategy cuts the model: it takes one input and one label tensor")
    x, y = batch
    return x, y


def scored(model: keras.Model, y: tf.Tensor, outputs: tf.Tensor, loss: tf.Tensor) -> Logs:
    """Update the metrics of a model as its `train_step` would; return their results.

    `loss` is the mean over the examples of `outputs`.
    """
    for metric in model.metrics:
        if metric.name == "loss":
            metric.update_state(loss, sample_weight=tf.shape(outputs)[0])
    return numbers(model.compute_metrics(None, y, outputs))


def mean_loss(model: keras.Model, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
    """Return the model's loss, its mean over the examples."""
    return model.compute_loss(None, y, outputs, training=True)

"""Which models can be trained in parts, and helpers for strategies that give each node a part.

These strategies compute the gradient of one loss of one output themselves, and update each node's
variables with an optimizer of its own. So they train only what is listed here: layers of Keras
without side effects, mean losses of Keras, and optimizers that update each weight independently.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import keras
import tensorflow as tf

from nodewise.core.errors import RefusedError
from nodewise.models import fit_options
from nodewise.models.contents import layers_in
from nodewise.strategies.api import Logs, numbers

_OPTIMIZERS = {"SGD", "RMSprop", "Lion", "Ftrl", "Adam", "AdamW", "ScheduleFreeAdamW"}
_OPTIMIZERS |= {"Nadam", "Adamax", "Adagrad", "Adadelta"}
_LAYERS = {"InputLayer", "Dense", "Embedding", "Conv1D", "Conv2D", "Conv3D", "Conv2DTranspose"}
_LAYERS |= {"DepthwiseConv2D", "SeparableConv2D", "EinsumDense", "MultiHeadAttention"}
_LAYERS |= {"LSTM", "LSTMCell", "GRU", "GRUCell", "Bidirectional"}
_LAYERS |= {"BatchNormalization", "LayerNormalization", "GroupNormalization", "Rescaling"}
_LAYERS |= {"Dropout", "SpatialDropout1D", "SpatialDropout2D", "GaussianDropout", "GaussianNoise"}
_LAYERS |= {"MaxPooling1D", "MaxPooling2D", "AveragePooling1D", "AveragePooling2D"}
_LAYERS |= {"GlobalMaxPooling1D", "GlobalMaxPooling2D", "GlobalAveragePooling1D"}
_LAYERS |= {"GlobalAveragePooling2D", "Flatten", "Reshape", "Permute", "ZeroPadding2D"}
_LAYERS |= {"Cropping2D", "UpSampling2D", "Activation", "ReLU", "LeakyReLU", "ELU", "PReLU"}
_LAYERS |= {"Softmax", "Add", "Average", "Concatenate", "Maximum", "Multiply", "Subtract"}
_MEANS = ("sum_over_batch_size", "mean")
_OF_A_BATCH = ("Dice", "Tversky", "dice", "tversky")  # one number for a batch, without an axis


def check(model: keras.Model, batch: Any = None) -> None:  # noqa: ANN401
    """Check that a model can be trained in parts.

    Args:
        model: a compiled model.
        batch: the TensorSpecs of a batch, if known.

    Raises:
        RefusedError: it cannot; the text names what is not allowed.
    """
    for problem in _problems(model, batch):
        raise RefusedError(f"this strategy splits the model across nodes: {problem}")
    check_optimizer(model.optimizer, model.trainable_variables)


def _problems(model: keras.Model, batch: Any) -> Iterator[str]:  # noqa: ANN401
    """Yield what a model has that nodes with a part of it cannot train."""
    for method in own_methods(model):
        yield f"a {method} of your own is not allowed"
    options = fit_options.of(model)
    if options.class_weight or options.callbacks:
        yield "class weights and callbacks are not allowed"
    plain = batch is None or (isinstance(batch, tuple) and len(batch) == 2)
    inputs = getattr(model, "inputs", None) or []
    if not plain or len(inputs) != 1 or len(model.outputs) != 1 or tf.nest.is_nested(model.loss):
        yield (
            "allowed is a Sequential or functional model with one input, one output, one loss and "
            "no sample weights"
        )
    if not is_a_mean_of_keras(model.loss):
        yield "the loss must be one of keras.losses with the reduction sum_over_batch_size"
    if model.losses:
        yield "losses that layers add, such as regularizers, are not allowed"
    for layer in layers_in(model):
        if not _is_known(layer):
            yield f"the layer {layer.name} ({type(layer).__name__}) is not allowed"


def own_methods(model: keras.Model) -> list[str]:
    """Return the names of methods that train and are the user's own."""
    names = ("train_step", "compute_loss")
    return [name for name in names if getattr(type(model), name) is not getattr(keras.Model, name)]


def is_a_mean_of_keras(loss: Any) -> bool:  # noqa: ANN401
    """Return whether a loss is one of Keras that is a mean of values for each example."""
    loss = keras.losses.get(loss)
    kind = loss if hasattr(loss, "__name__") else type(loss)
    mean = getattr(loss, "reduction", _MEANS[0]) in _MEANS and kind.__name__ not in _OF_A_BATCH
    return mean and str(kind.__module__).startswith("keras.")


def _is_known(layer: keras.Layer) -> bool:
    """Return whether a layer only computes its outputs, from examples of this node alone."""
    kind = type(layer)
    if not kind.__module__.startswith("keras.src."):
        return False
    if isinstance(layer, keras.Model):
        return True
    special = ("synchronized", "stateful", "activity_regularizer")
    plain = not any(getattr(layer, name, None) for name in special)
    return plain and kind.__name__ in _LAYERS


def check_optimizer(
    optimizer: keras.optimizers.Optimizer, variables: Iterable[keras.Variable]
) -> None:
    """Check that an optimizer trains parts of `variables` exactly as it would train all of them.

    Raises:
        RefusedError: it does not, or a variable has a constraint.
    """
    kind = type(optimizer)
    if kind.__name__ not in _OPTIMIZERS or not kind.__module__.startswith("keras.src."):
        known = ", ".join(sorted(_OPTIMIZERS))
        raise RefusedError(f"the optimizer {kind.__name__} needs whole layers; allowed: {known}")
    for setting in ("clipnorm", "global_clipnorm", "use_ema"):
        if getattr(optimizer, setting):
            raise RefusedError(f"the optimizer's {setting} needs the weights of all nodes")
    if optimizer.built and int(optimizer.iterations) > 0:
        raise RefusedError(
            "the saved model has the state of its optimizer, which this strategy would begin anew; "
            "compile it again in a build()"
        )
    for variable in variables:
        if variable.constraint is not None:
            raise RefusedError(f"{variable.path} has a constraint, which needs all of it")


def scored(model: keras.Model, y: tf.Tensor, outputs: tf.Tensor, loss: tf.Tensor) -> Logs:
    """Update the model's metrics as its `train_step` would; return their results.

    `loss` is the mean over the examples of `outputs`.
    """
    for metric in model.metrics:
        if metric.name == "loss":
            metric.update_state(loss, sample_weight=tf.shape(outputs)[0])
    return numbers(model.compute_metrics(None, y, outputs))

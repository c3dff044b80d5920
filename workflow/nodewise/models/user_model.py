"""A user's own model: what their `build()` returned, checked against the dataset it is to learn.

Imports TensorFlow. A model that could not train, or would train wrongly in silence, is refused in
one line that says what was expected and what came.
"""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING

import keras
import numpy as np
import tensorflow as tf

from nodewise.core.errors import UserError
from nodewise.core.user_function import Function, parse_spec
from nodewise.models.training import Loss, Recipe

if TYPE_CHECKING:
    from nodewise.data import Dataset

LEARNING_RATE = 0.01  # of plain SGD, for a model that comes without an optimizer
_EXAMPLES = 8  # are enough to see what a model gives
_SUM_TOLERANCE = 1e-3

AnyLoss = Callable[..., tf.Tensor]  # an object of Keras, or a function


def recipe(spec: str, data: "Dataset") -> Recipe:
    """Return how to build and train the model that the user's function `spec` returns.

    A compiled model brings its optimizer, of which every replica gets a fresh one, and its loss. If
    it is not compiled it gets SGD and softmax cross-entropy, on logits or on probabilities,
    whatever it gives. The function is called when the recipe builds, which may be in a strategy's
    scope: variables must not be there earlier.

    Raises:
        UserError: there is no such function. Building raises it if the model does not fit.
    """
    own = OwnModel(Function(parse_spec(spec)), data)
    return Recipe(own.build, own.optimizer, own.loss)


class OwnModel:
    """The user's model on one dataset. `optimizer` and `loss` are those of the last one built."""

    def __init__(self, function: Function, data: "Dataset") -> None:
        self._function = function
        self._name = function.place.text
        self._data = data
        self._loss: Loss | None = None
        self._optimizer: keras.optimizers.Optimizer | None = None

    def build(self) -> keras.Model:
        """Return a new model, which gives one number per class for each example.

        Raises:
            UserError: the function failed, or returned what cannot be trained on the dataset.
        """
        model = self._function()
        if not isinstance(model, keras.Model):
            came = "nothing" if model is None else f"a {type(model).__name__}"
            raise UserError(f"{self._name}: must return a keras.Model, not {came}")
        _check_training(model, self._name)
        _check_inputs(model, self._data, self._name)
        labels = int(max(self._data.y_train.max(), self._data.y_test.max()))
        x = tf.constant(self._data.x_train[:_EXAMPLES])
        y = tf.constant(self._data.y_train[:_EXAMPLES])
        with self._function.blamed():
            outputs = model(x, training=False)
        _check_outputs(outputs, len(x), labels, self._name)
        with self._function.blamed():
            self._loss = loss = _loss_of(model, outputs.numpy(), self._name)
            losses = loss(y, outputs)
            # where a strategy's own variables have gradients
            gradients = tf.distribute.get_strategy().run(lambda: _gradients(model, loss, x, y))
        if losses.shape != (len(x),):
            raise UserError(
                f"{self._name}: the loss must give one value per example; for {len(x)} examples it "
                f"gives {_written(tuple(losses.shape))}"
            )
        _check_weights(model, gradients, self._name)
        self._optimizer = getattr(model, "optimizer", None) if model.compiled else None
        return model

    def optimizer(self) -> keras.optimizers.Optimizer:
        """Return a fresh optimizer like the model's own, with nothing of its state."""
        if self._optimizer is None:
            return keras.optimizers.SGD(LEARNING_RATE)
        with self._function.blamed():
            return type(self._optimizer).from_config(self._optimizer.get_config())

    def loss(self, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """Return one loss per example, (examples,), from labels and what the model gave."""
        if self._loss is None:
            raise RuntimeError("the loss is the built model's")
        return self._loss(y, outputs)


def _check_training(model: keras.Model, name: str) -> None:
    """Check that nothing is asked of training that a loop of this project would leave out."""
    for method in ("train_step", "compute_loss"):
        if getattr(type(model), method) is not getattr(keras.Model, method):
            raise UserError(f"{name}: has a {method} of its own, which nothing here would call")
    # private: Keras lists the layers inside a layer of one's own nowhere else
    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.BatchNormalization) and layer.synchronized:
            raise UserError(
                f"{name}: {layer.name} is synchronized over workers, which is not done here; each "
                "normalises by its own examples"
            )
    if not model.compiled:
        return
    # private: get_compile_config() also serializes the loss and optimizer, which may be one's own
    if model._compile_config.config["loss_weights"] is not None:
        raise UserError(f"{name}: must have one loss, which is not weighted (loss_weights)")
    if getattr(model, "optimizer", None) is not None:
        _check_optimizer(model.optimizer, name)


def _check_optimizer(optimizer: keras.optimizers.Optimizer, name: str) -> None:
    """Check that an optimizer trains so wherever every replica, or part of one, gets its own."""
    if isinstance(optimizer, keras.optimizers.MultiOptimizer):
        raise UserError(f"{name}: must have one optimizer, not several in a MultiOptimizer")
    scales = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
    if scales or optimizer.loss_scale_factor is not None:
        raise UserError(
            f"{name}: its optimizer scales the loss, which is not done here; train in float32, or "
            "with the policy mixed_bfloat16"
        )
    if optimizer.use_ema:
        raise UserError(
            f"{name}: its optimizer averages weights (use_ema), which nothing here would put into "
            "the model in the end"
        )
    if optimizer.gradient_accumulation_steps is not None:
        raise UserError(
            f"{name}: its optimizer has gradient_accumulation_steps, but here every step is an "
            "update; use a larger batch"
        )
    excluded = ("_exclude_from_weight_decay", "_exclude_from_weight_decay_pattern")
    if any(getattr(optimizer, names, None) for names in excluded):
        raise UserError(
            f"{name}: its optimizer excludes weights from weight decay, which is lost where every "
            "replica gets an optimizer of its own"
        )


def _check_inputs(model: keras.Model, data: "Dataset", name: str) -> None:
    """Check the shape that a functional or Sequential model declares; another one is just tried."""
    inputs = getattr(model, "inputs", None)
    if not inputs:
        return
    if len(inputs) > 1:
        raise UserError(f"{name}: must have one input, not {len(inputs)}")
    expected, came = tuple(inputs[0].shape[1:]), data.x_train.shape[1:]
    fits = len(expected) == len(came) and all(
        e in (None, c) for e, c in zip(expected, came, strict=True)
    )
    if not fits:
        raise UserError(
            f"{name}: takes examples of shape {_written(expected)}, but those of "
            f"{data.manifest.dataset} have {_written(came)} ({data.x_train.dtype})"
        )


def _check_outputs(outputs: tf.Tensor, examples: int, highest_label: int, name: str) -> None:
    if not tf.is_tensor(outputs):
        raise UserError(f"{name}: must give one tensor, not a {type(outputs).__name__}")
    shape = tuple(outputs.shape)
    if len(shape) != 2 or shape[0] != examples:
        raise UserError(
            f"{name}: must give (batch, classes), but for a batch of {examples} it gives "
            f"{_written(shape)}"
        )
    if shape[1] <= highest_label:
        raise UserError(
            f"{name}: gives {shape[1]} numbers per example, for labels 0 to {shape[1] - 1}; the "
            f"dataset has labels up to {highest_label}"
        )
    if outputs.dtype != tf.float32:
        raise UserError(f"{name}: must give float32, not {outputs.dtype.name}")
    if not np.isfinite(outputs.numpy()).all():
        raise UserError(f"{name}: gives numbers that are not finite for the first examples")


def _gradients(
    model: keras.Model, loss: Loss, x: tf.Tensor, y: tf.Tensor
) -> list[tf.Tensor | None]:
    with tf.GradientTape() as tape:
        losses = loss(y, model(x, training=False))
    gradients: list[tf.Tensor | None] = tape.gradient(losses, model.trainable_variables)
    return gradients


def _check_weights(model: keras.Model, gradients: list[tf.Tensor | None], name: str) -> None:
    if not model.trainable_variables:
        raise UserError(f"{name}: has no trainable weights")
    for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
        if variable.dtype != "float32":
            raise UserError(f"{name}: {variable.path} is {variable.dtype}; weights must be float32")
        if gradient is None:
            raise UserError(
                f"{name}: {variable.path} has no influence on the output; freeze or remove it"
            )
    if model.losses:
        raise UserError(
            f"{name}: adds losses of its own (a regularizer or add_loss), which are not trained "
            "here; use the optimizer's weight_decay"
        )


def _loss_of(model: keras.Model, outputs: np.ndarray, name: str) -> Loss:
    """Return the loss to train with, once it is clear that the outputs are what it takes."""
    sums_to_one = bool((outputs >= 0).all() and np.allclose(outputs.sum(1), 1, atol=_SUM_TOLERANCE))
    chosen = model.loss if model.compiled else None
    if chosen is None:
        chosen = keras.losses.SparseCategoricalCrossentropy(from_logits=not sums_to_one)
    elif not isinstance(chosen, str) and not callable(chosen):
        raise UserError(f"{name}: must have one loss, not several")
    loss = keras.losses.get(chosen)
    from_logits = _from_logits(loss)
    if from_logits and sums_to_one:
        raise UserError(
            f"{name}: gives probabilities (a softmax), but its loss has from_logits=True; remove "
            "one of the two"
        )
    if from_logits is False and not ((outputs >= 0) & (outputs <= 1)).all():
        raise UserError(
            f"{name}: gives logits, but its loss takes probabilities; give the loss "
            "from_logits=True, or the last layer a softmax"
        )
    return _per_example(loss, outputs.shape[1])


def _from_logits(loss: AnyLoss) -> bool | None:
    """Return whether a loss takes logits; None if it knows no difference."""
    if isinstance(loss, keras.losses.Loss):
        return getattr(loss, "from_logits", None)
    parameter = inspect.signature(loss).parameters.get("from_logits")
    return bool(parameter.default) if parameter else None


def _per_example(loss: AnyLoss, classes: int) -> Loss:
    """Return a loss with one value per example, from labels as the dataset has them.

    Of Keras' own losses all but the sparse ones take labels as one-hot rows.
    """
    values = loss.call if isinstance(loss, keras.losses.Loss) else loss
    kind = type(loss) if isinstance(loss, keras.losses.Loss) else loss
    own = not kind.__module__.startswith("keras.")
    one_hot = not own and not kind.__name__.lower().startswith("sparse")

    def per_example(y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        labels = tf.one_hot(tf.cast(y, tf.int32), classes) if one_hot else tf.cast(y, tf.int32)
        return tf.convert_to_tensor(values(labels, outputs))

    return per_example


def _written(shape: tuple[int | None, ...]) -> str:
    return "×".join("any" if size is None else str(size) for size in shape) or "()"

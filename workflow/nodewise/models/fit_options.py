"""Arguments of `fit` apart from model and data: class weights and callbacks.

A user's `build` returns them with the model, under the names of `fit`'s arguments. Imports
TensorFlow.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import keras
import tensorflow as tf
from keras import ops
from pydantic import FiniteFloat, TypeAdapter, ValidationError

from nodewise.core.errors import RefusedError, UserError
from nodewise.core.user_function import ParsedSpec

_WEIGHTS = TypeAdapter(dict[int, FiniteFloat])
_OF_KERAS = (
    keras.callbacks.EarlyStopping,
    keras.callbacks.LearningRateScheduler,
    keras.callbacks.ReduceLROnPlateau,
)
WRITING = {
    keras.callbacks.CSVLogger: "filename",
    keras.callbacks.ModelCheckpoint: "filepath",
    keras.callbacks.TensorBoard: "log_dir",
}
"""Callbacks that write files, and their attribute that says where."""
_PER_EPOCH = {"save_freq": "epoch", "update_freq": "epoch", "_start_batch": 0}
_CALLED = ("on_train_begin", "on_epoch_begin", "on_epoch_end", "on_train_end")
_CALLBACKS = (
    "allowed are EarlyStopping, LearningRateScheduler, ReduceLROnPlateau, those that write files "
    "after epochs (CSVLogger, ModelCheckpoint, TensorBoard) and a keras.callbacks.Callback of your "
    f"own with {', '.join(_CALLED)}"
)


@dataclass(frozen=True)
class FitOptions:
    """Options of `fit` for a user's model; this project's models have none.

    Attributes:
        class_weight: weights by class number; 1 for classes that are not listed.
        callbacks: the callbacks, in order.
        place: the user's function that returned the options, if any.
    """

    class_weight: Mapping[int, float] = field(default_factory=dict)
    callbacks: tuple[keras.callbacks.Callback, ...] = ()
    place: ParsedSpec | None = None


def read(place: ParsedSpec, given: object) -> FitOptions:
    """Return the options that the user's function returned with its model.

    Raises:
        UserError: they are not valid options.
        RefusedError: a callback is not supported.
    """
    name = place.text
    if not isinstance(given, dict) or given.keys() - {"class_weight", "callbacks"}:
        raise UserError(
            f"{name}: must return a model, or a model and a dict of class_weight and callbacks, "
            "the only arguments of fit that are followed"
        )
    class_weight = given.get("class_weight")
    try:
        class_weight = {} if class_weight is None else _WEIGHTS.validate_python(class_weight)
    except ValidationError as error:
        raise UserError(
            f"{name}: class_weight must be a dict of class numbers and weights, such as "
            "{0: 1.0, 1: 5.0}"
        ) from error
    callbacks = given.get("callbacks")
    if not isinstance(callbacks, list | tuple):
        callbacks = [] if callbacks is None else [callbacks]
    for one in callbacks:
        if problem := _not_supported(one):
            raise RefusedError(f"{name}: callbacks: {problem} is not supported; {_CALLBACKS}")
    return FitOptions(class_weight, tuple(callbacks), place)


def of(model: keras.Model) -> FitOptions:
    """Return the options of a model."""
    options: FitOptions = getattr(model, "fit_options", FitOptions())
    return options


def _not_supported(callback: object) -> str:
    """Return the callback's class, or the method of it, that is not supported; empty if none."""
    plain, kind = keras.callbacks.Callback, type(callback)
    if isinstance(callback, (*_OF_KERAS, *WRITING)):
        given = {name: getattr(callback, name, value) for name, value in _PER_EPOCH.items()}
        return "" if given == _PER_EPOCH else f"{kind.__name__} within epochs"
    bases = [base for base in kind.__mro__ if base is not plain]
    if not isinstance(callback, plain) or any(one.__module__.startswith("keras.") for one in bases):
        return kind.__name__
    for method in dir(plain):
        changed = getattr(kind, method) is not getattr(plain, method)
        if method.startswith("on_") and method not in _CALLED and changed:
            return f"{kind.__name__}.{method}"
    return ""


def weighted(batch: Any, options: FitOptions) -> Any:  # noqa: ANN401
    """Return a batch with the sample weights that `fit` would derive from class weights.

    Args:
        batch: (x, y); y contains class numbers, (examples,) or (examples, 1), or one column per
            class.
        options: the options; without class weights the batch is returned unchanged.

    Raises:
        UserError: the batch already has sample weights, or has other labels.
    """
    class_weight = options.class_weight
    if not class_weight:
        return batch
    name = options.place.text if options.place else "fit"
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(batch)
    if sample_weight is not None:
        raise UserError(f"{name}: class_weight and sample weights do not go together, as in fit")
    if isinstance(y, dict | tuple | list | tf.RaggedTensor) or len(y.shape) not in (1, 2):
        raise UserError(f"{name}: class_weight needs one label for each example, of one output")
    classes = y
    if len(y.shape) == 2:
        classes = y[:, 0] if y.shape[-1] == 1 else ops.argmax(y, axis=-1)
    if keras.backend.is_float_dtype(classes.dtype):
        classes = ops.round(classes)
    is_class = ops.cast(classes, "int32")[:, None] == ops.array(list(class_weight), "int32")
    weights = ops.array(list(class_weight.values()), keras.config.floatx())
    found = ops.sum(ops.where(is_class, weights, ops.zeros_like(weights)), axis=1)
    return x, y, ops.where(ops.any(is_class, axis=1), found, ops.ones_like(found))

"""Arguments of `fit` apart from model and data: class weights and learning rate callbacks.

A user's `build` returns them with the model, under the names of `fit`'s arguments. Imports
TensorFlow.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf
from pydantic import FiniteFloat, TypeAdapter, ValidationError

from nodewise.core.errors import UserError
from nodewise.core.user_function import ParsedSpec

_WEIGHTS = TypeAdapter(dict[int, FiniteFloat])
_OF_KERAS = (keras.callbacks.LearningRateScheduler, keras.callbacks.ReduceLROnPlateau)
_CALLED = ("on_train_begin", "on_epoch_begin", "on_epoch_end", "on_train_end")
_CALLBACKS = (
    "allowed are LearningRateScheduler, ReduceLROnPlateau and a keras.callbacks.Callback of your "
    f"own with {', '.join(_CALLED)}"
)


@dataclass(frozen=True)
class FitOptions:
    """Options of `fit` for a user's model.

    Attributes:
        class_weight: weights by class number; 1 for classes that are not listed.
        callbacks: the callbacks, in order.
        place: the user's function that returned the options, if any.
    """

    class_weight: Mapping[int, float]
    callbacks: tuple[keras.callbacks.Callback, ...]
    place: ParsedSpec | None


NO_FIT_OPTIONS = FitOptions({}, (), None)


def read(place: ParsedSpec, given: object) -> FitOptions:
    """Return the options that the user's function returned with its model.

    Raises:
        UserError: they are not valid options.
    """
    name = place.text
    if not isinstance(given, dict):
        raise UserError(
            f"{name}: must return a model, or a model and a dict of class_weight and callbacks"
        )
    for key in given:
        if key not in ("class_weight", "callbacks"):
            raise UserError(f"{name}: {key!r} is not allowed, only class_weight and callbacks are")
    return FitOptions(
        _class_weight(name, given.get("class_weight")),
        _callbacks(name, given.get("callbacks")),
        place,
    )


def of(model: keras.Model) -> FitOptions:
    """Return the options of a model; this project's models have none."""
    options: FitOptions = getattr(model, "fit_options", NO_FIT_OPTIONS)
    return options


def _class_weight(name: str, given: object) -> dict[int, float]:
    try:
        return {} if given is None else _WEIGHTS.validate_python(given)
    except ValidationError as error:
        raise UserError(
            f"{name}: class_weight must be a dict of class numbers and weights, such as "
            "{0: 1.0, 1: 5.0}"
        ) from error


def _callbacks(name: str, given: Any) -> tuple[keras.callbacks.Callback, ...]:  # noqa: ANN401
    plain = keras.callbacks.Callback
    callbacks = given if isinstance(given, list | tuple) else [] if given is None else [given]
    for one in callbacks:
        kind = type(one)
        own = isinstance(one, plain) and not any(
            base.__module__.startswith("keras.") for base in kind.__mro__ if base is not plain
        )
        not_called = [
            method
            for method in dir(plain)
            if method.startswith("on_") and method not in _CALLED
            if own and getattr(kind, method) is not getattr(plain, method)
        ]
        if not (own or isinstance(one, _OF_KERAS)) or not_called:
            method = f".{not_called[0]}" if not_called else ""
            raise UserError(
                f"{name}: callbacks: {kind.__name__}{method} is not supported; {_CALLBACKS}"
            )
    return tuple(callbacks)


def weighted(batch: Any, class_weight: Mapping[int, float]) -> Any:  # noqa: ANN401
    """Return a batch with the sample weights that `fit` would derive from class weights.

    Args:
        batch: (x, y); y contains class numbers, (examples,) or (examples, 1), or one column per
            class.
        class_weight: weights by class; if empty, the batch is returned unchanged.

    Raises:
        UserError: the batch already has sample weights, or has other labels.
    """
    if not class_weight:
        return batch
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(batch)
    if sample_weight is not None:
        raise UserError("class_weight and sample weights do not go together, as in fit")
    if not isinstance(y, tf.Tensor) or y.shape.rank not in (1, 2):
        raise UserError("class_weight needs one label for each example, of a single output")
    classes = y
    if y.shape.rank == 2:
        classes = y[:, 0] if y.shape[-1] == 1 else tf.argmax(y, axis=-1)
    if classes.dtype.is_floating:
        classes = tf.round(classes)
    is_class = tf.cast(classes, tf.int64)[:, None] == tf.constant(list(class_weight), tf.int64)
    weights = tf.constant(list(class_weight.values()), keras.config.floatx())
    found = tf.reduce_sum(tf.where(is_class, weights, tf.zeros_like(weights)), axis=1)
    return x, y, tf.where(tf.reduce_any(is_class, axis=1), found, tf.ones_like(found))

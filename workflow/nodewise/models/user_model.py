"""A user's own model: the compiled model that their `build()` returns.

Imports TensorFlow.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any
from unittest.mock import patch

import keras
import tensorflow as tf

# private: without it, users could not refer to layers by automatic names
from keras.src.utils.naming import reset_uids

from nodewise.core.errors import RefusedError, UserError
from nodewise.core.user_function import Function, ParsedSpec, parse_spec, user_errors
from nodewise.models import fit_options
from nodewise.models.contents import layers_in
from nodewise.models.fit_options import FitOptions


def building(spec: str) -> Callable[[], keras.Model]:
    """Return a function that builds the user's model `spec`, a new one at each call.

    A strategy calls it, possibly in a scope of its own. No variables may exist before that, so the
    user's file is imported only then. Errors in the model's `train_step` and `test_step`, which
    occur when they are traced, are reported in one line, too.

    Raises:
        UserError: there is no such function. The returned function raises it if there is no
            compiled model.
    """
    place = parse_spec(spec)
    imported = cache(partial(Function, place))

    def build() -> keras.Model:
        with _in_own_scope(place):
            model, options = _built(imported())
        _refuse_other_fit(place, model)
        train_step = model.train_step

        @user_errors(place)
        def weighted_train_step(*arguments: Any) -> Any:  # noqa: ANN401
            *state, batch = arguments  # on JAX a step gets the state before the batch
            return train_step(*state, fit_options.weighted(batch, options))

        model.train_step, model.test_step = weighted_train_step, user_errors(place)(model.test_step)
        model.fit_options = options
        return model

    return build


@contextmanager
def _in_own_scope(place: ParsedSpec) -> Iterator[None]:
    """Build a model with names as in a new process, in a scope that `clear_session` does not end.

    Raises:
        RefusedError: it makes a tf.distribute strategy: TensorFlow crashes beside that of a cell.
    """

    def refuse(*_: object, **__: object) -> None:
        raise RefusedError(
            f"{place.text}: makes a tf.distribute strategy; leave that and its scope to --strategy"
        )

    with (
        patch.object(tf.distribute.MirroredStrategy, "__init__", refuse),
        patch.object(tf.distribute.MultiWorkerMirroredStrategy, "__init__", refuse),
        patch.object(tf.compat.v1, "reset_default_graph"),
    ):
        reset_uids()
        yield


def _refuse_other_fit(place: ParsedSpec, model: keras.Model) -> None:
    """Check that `fit` would do what strategies do: trace `train_step` and pass examples unchanged.

    Models of KerasHub preprocess the examples, unless their preprocessor is removed.

    Raises:
        RefusedError: `fit` would do something else.
    """
    of_keras_hub = hasattr(model, "preprocess_samples")
    if of_keras_hub and model.preprocessor is not None:
        raise RefusedError(
            f"{place.text}: the model has a preprocessor, which only its own fit calls; set "
            "model.preprocessor = None, and have your data's function return preprocessed examples"
        )
    for method in ("fit", "make_train_function"):
        if not of_keras_hub and getattr(type(model), method) is not getattr(keras.Model, method):
            raise RefusedError(
                f"{place.text}: the model has a {method} of its own, which strategies do not call; "
                "have its train_step do what is needed"
            )


def _built(function: Function) -> tuple[keras.Model, FitOptions]:
    """Return the model that a user's function returned, and its fit options."""
    name, returned, options = function.parsed.text, function(), FitOptions()
    if isinstance(returned, tuple) and len(returned) == 2:
        returned, given = returned
        options = fit_options.read(function.parsed, given)
    if not isinstance(returned, keras.Model):
        came = "nothing" if returned is None else f"a {type(returned).__name__}"
        if type(returned).__module__.startswith("tf_keras"):
            came += " of Keras 2; unset TF_USE_LEGACY_KERAS"
        raise UserError(f"{name}: must return a keras.Model, not {came}")
    if not returned.compiled:
        raise UserError(
            f"{name}: the model is not compiled; call model.compile(optimizer=…, loss=…) before "
            "you return it"
        )
    _refuse_shared(function, returned)
    return returned, options


def _refuse_shared(function: Function, model: keras.Model) -> None:
    """Check that no part of the model was created at import, as all replicas would share it.

    Metrics may be shared, except in a tf.distribute scope, whose variables cannot be used outside.
    """
    scoped = model.metrics if tf.distribute.has_strategy() else []
    own = {id(one) for one in (*layers_in(model), model.optimizer, *scoped) if one is not None}
    for name, value in function.made_at_import.items():
        values = value if isinstance(value, list | tuple) else [value]
        if any(id(one) in own for one in values):
            raise UserError(
                f"{function.parsed.text}: {name!r} is made when the file is imported, but every "
                f"replica needs one of its own; make it in {function.parsed.function}()"
            )

"""A user's own model: the compiled model that their `build()` returns.

Imports TensorFlow.
"""

from collections.abc import Callable
from typing import Any

import keras

from nodewise.core.errors import UserError
from nodewise.core.user_function import Function, parse_spec


def building(spec: str) -> Callable[[], keras.Model]:
    """Return what builds the model of the user's function `spec`, a new one each time.

    It is called by a strategy, perhaps in a scope of its own: variables must not be there earlier.
    What goes wrong in the model's `train_step`, when it is traced, is told as one line, too.

    Raises:
        UserError: there is no such function. Building raises it if there is no compiled model.
    """
    function = Function(parse_spec(spec))

    def build() -> keras.Model:
        model = function()
        name = function.place.text
        if not isinstance(model, keras.Model):
            came = "nothing" if model is None else f"a {type(model).__name__}"
            raise UserError(f"{name}: must return a keras.Model, not {came}")
        if not model.compiled:
            raise UserError(
                f"{name}: the model is not compiled; call model.compile(optimizer=…, loss=…) "
                "before you return it"
            )
        train_step = model.train_step

        def blamed(batch: Any) -> Any:  # noqa: ANN401
            with function.blamed():
                return train_step(batch)

        model.train_step = blamed
        return model

    return build

"""Small models for tests, compiled as a user would compile them."""

from collections.abc import Callable
from typing import Any


def compiled(build: Callable[[], Any], optimizer: Callable[[], Any], loss: Any = None) -> Any:
    """Return a function that builds and compiles the model; the default loss is a classifier's."""

    def compiled_model() -> Any:
        import keras

        model = build()
        by_default = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer(), by_default if loss is None else loss)
        return model

    return compiled_model

"""Call a user's callbacks between epochs, with the logs that `fit` would give them.

Imports TensorFlow.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import keras

from nodewise.cluster.channel import Channel
from nodewise.core.errors import RefusedError, UserError
from nodewise.core.user_function import user_errors
from nodewise.models import fit_options

Scores = tuple[dict[str, float], int]
"""Logs by name, and how many examples they are of."""


class Callbacks:
    """The callbacks of a worker's model: each worker calls its own.

    All of them see the same logs, which are means over the workers: so they do the same.

    Args:
        model: what is trained.
        channel: the worker's own.
        workers: how many workers train.
        epochs: how many are trained.
        steps: of an epoch.
        validate: scores the worker's part of the test examples, as the model is; None without any.
    """

    def __init__(
        self,
        model: keras.Model,
        channel: Channel,
        *,
        workers: int,
        epochs: int,
        steps: int,
        validate: Callable[[], Scores] | None,
    ) -> None:
        self._options = fit_options.of(model)
        self._model, self._channel, self._workers = model, channel, workers
        self._validate = validate if any(map(_watches_tests, self._options.callbacks)) else None
        self._list = keras.callbacks.CallbackList(
            list(self._options.callbacks), model=model, epochs=epochs, steps=steps, verbose=0
        )

    def begin(self) -> None:
        """Begin the training and its first epoch."""
        with self._user_errors():
            self._model.stop_training = False
            self._list.on_train_begin()
            self._list.on_epoch_begin(0)

    def between(self, ended: int, logs: dict[str, float]) -> None:
        """End an epoch, counted from 0, and begin the next; the worker's own `logs` are its last.

        Raises:
            UserError: a callback failed, or watches what is not among the logs.
            RefusedError: a callback wants to end the training.
        """
        self._end(ended, logs)
        with self._user_errors():
            self._list.on_epoch_begin(ended + 1)

    def end(self, ended: int, logs: dict[str, float]) -> None:
        """End the last epoch and the training; see `between`."""
        self._end(ended, logs)
        with self._user_errors():
            self._list.on_train_end()

    def _end(self, ended: int, logs: dict[str, float]) -> None:
        means = self._mean((logs, 1))
        if self._validate:
            tested = self._mean(self._validate())
            means |= {f"val_{name}": value for name, value in tested.items()}
        for one in self._options.callbacks:
            watched = getattr(one, "monitor", None)
            if watched is not None and watched not in means:
                raise UserError(
                    f"{type(one).__name__}: monitor={watched!r} is not among the logs of an "
                    f"epoch: {', '.join(sorted(means))}"
                )
        with self._user_errors():
            self._list.on_epoch_end(ended, means)
        if self._model.stop_training:
            raise RefusedError(
                f"a callback stops the training after epoch {ended + 1}; callbacks may only change "
                "the learning rate, measure fewer epochs instead"
            )

    def _mean(self, own: Scores) -> dict[str, float]:
        """Return the mean of all workers' logs, each weighted by its examples."""
        shared: list[Scores] = [
            (logs, weight) for logs, weight in self._channel.share(own, self._workers) if weight
        ]
        total = sum(weight for _, weight in shared)
        return {
            name: sum(logs[name] * weight for logs, weight in shared) / total
            for name in shared[0][0]
        }

    def _user_errors(self) -> AbstractContextManager[None]:
        return user_errors(self._options.place) if self._options.place else nullcontext()


def _watches_tests(callback: Any) -> bool:  # noqa: ANN401
    """Tell whether a callback may want to know of the test examples: all but some of Keras do."""
    if isinstance(callback, keras.callbacks.LearningRateScheduler):
        return False
    return str(getattr(callback, "monitor", "val_")).startswith("val_")

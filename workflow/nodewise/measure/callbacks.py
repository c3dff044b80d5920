"""Call a user's callbacks between epochs, with the logs that `fit` would pass to them.

Imports TensorFlow.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import keras

from nodewise.cluster.channel import Channel
from nodewise.cluster.leftovers import temporary_folder
from nodewise.core.errors import RefusedError
from nodewise.core.user_function import user_errors
from nodewise.models import fit_options

Scores = tuple[dict[str, float], int]
"""Logs by name, and the number of examples that they are computed from."""


class Callbacks:
    """The callbacks of a worker's model. Each worker calls its own.

    All callbacks get the same logs, which are means over the workers, and so do the same. What they
    write is kept from rank 0; the others also write, as saving a model may need all workers.

    Args:
        model: the model that is trained.
        channel: the worker's channel.
        rank: the worker's rank.
        workers: the number of workers that train.
        epochs: the number of epochs.
        steps: the number of steps in an epoch.
        validate: evaluates the current model on the worker's part of the test examples; None if
            there are no test examples.
    """

    def __init__(
        self,
        model: keras.Model,
        channel: Channel,
        *,
        rank: int,
        workers: int,
        epochs: int,
        steps: int,
        validate: Callable[[], Scores] | None,
    ) -> None:
        self._options = fit_options.of(model)
        self._model, self._channel, self._workers = model, channel, workers
        self._epochs, self._validate = epochs, validate
        self._scratch = temporary_folder()  # removed with this object
        for callback in self._options.callbacks if rank else ():
            for kind, place in fit_options.WRITING.items():
                if isinstance(callback, kind):
                    name = Path(getattr(callback, place)).name
                    setattr(callback, place, f"{self._scratch.name}/{name}")
        self._list = keras.callbacks.CallbackList(
            list(self._options.callbacks), model=model, epochs=epochs, steps=steps, verbose=0
        )

    def begin(self) -> None:
        """Call the callbacks at the start of the training and of the first epoch."""
        with self._user_errors():
            self._model.stop_training = False
            self._list.on_train_begin()
            self._list.on_epoch_begin(0)

    def end_epoch(self, number: int, logs: dict[str, float]) -> bool:
        """Call the callbacks at the end of an epoch and at the start of the next, if there is one.

        Returns whether a callback, such as EarlyStopping, ends the training.

        Args:
            number: the number of the epoch that ended, counted from 0.
            logs: the worker's own last logs of that epoch.

        Raises:
            UserError: a callback failed.
            RefusedError: a callback ends the training on some workers only.
        """
        means = self._mean((logs, 1))
        if self._validate:
            tested = self._mean(self._validate())
            means |= {f"val_{name}": value for name, value in tested.items()}
        with self._user_errors():
            self._list.on_epoch_end(number, means)
            ends = bool(self._model.stop_training)
            if len(set(self._channel.share(ends, self._workers))) > 1:
                raise RefusedError(
                    f"a callback ends the training after epoch {number + 1} on some workers only"
                )
            if ends or number + 1 == self._epochs:
                self._list.on_train_end()
            else:
                self._list.on_epoch_begin(number + 1)
        return ends

    def _mean(self, own: Scores) -> dict[str, float]:
        """Return the mean of all workers' logs, weighted by their numbers of examples."""
        shared: list[Scores] = [
            (logs, weight) for logs, weight in self._channel.share(own, self._workers) if weight
        ]
        total = sum(weight for _, weight in shared)
        names = shared[0][0] if shared else {}
        return {name: sum(logs[name] * weight for logs, weight in shared) / total for name in names}

    def _user_errors(self) -> AbstractContextManager[None]:
        return user_errors(self._options.place) if self._options.place else nullcontext()

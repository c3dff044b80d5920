"""A Keras callback that writes how long steps take, for `nodewise import`.

Copy this file beside your own code; it needs Keras and nothing of nodewise:

    model.fit(data, callbacks=[StepTimes("run_4gpus.json", batch_per_device=64)])
"""

import json
import time
from pathlib import Path

import keras


class StepTimes(keras.callbacks.Callback):
    """Write the seconds of each step of a training, without the first of each epoch.

    Args:
        path: the file to write, at the end of training.
        batch_per_device: examples of a step on one device.
        devices: those that train; default: as many as the strategy of tf.distribute has.
    """

    def __init__(
        self, path: str, batch_per_device: int | None = None, devices: int | None = None
    ) -> None:
        super().__init__()
        self.path, self.batch_per_device, self.devices = path, batch_per_device, devices
        self.step_s: list[float] = []

    def on_train_batch_begin(self, batch: int, logs: object = None) -> None:
        """Start the clock, as the step does."""
        self.start = time.perf_counter()

    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        """Stop the clock: the loss is known now, so that the step was done."""
        if batch > 0:  # the first builds the graph, or waits for its input
            self.step_s.append(time.perf_counter() - self.start)

    def on_train_end(self, logs: object = None) -> None:
        """Write the file."""
        content = {
            "format": "nodewise-step-times-1",
            "model": self.model.name,
            "devices": self.devices or _replicas(),
            "batch_per_device": self.batch_per_device,
            "step_s": self.step_s,
        }
        Path(self.path).write_text(json.dumps(content), encoding="utf-8")


def _replicas() -> int:
    import tensorflow as tf

    return tf.distribute.get_strategy().num_replicas_in_sync

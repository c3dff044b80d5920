"""TensorFlow's MirroredStrategy: the nodes are devices of one process.

Synchronous data parallelism within one machine: every device has a replica and takes its part of
the global batch. Gradients are summed over the devices, and nothing is sent over a network. Devices
are GPUs if there are enough of them, otherwise logical CPU devices. CPU devices share the process's
thread pool, which has one thread per device; TensorFlow chooses which thread computes for which
device.
"""

import time

import keras
import numpy as np
import tensorflow as tf

from nodewise.cluster.worker import reason_of
from nodewise.core.errors import RefusedError
from nodewise.models.contents import layers_in, optimizers_of
from nodewise.strategies import api, native
from nodewise.strategies.replica import Gradient, after, changed_gradients, weighted

_TITLE = "MirroredStrategy"


class Strategy(native.Strategy):
    """Trains on `job.size` devices of this process; every batch is the global one."""

    def __init__(self, job: api.Job) -> None:
        self._mirrored = _on_devices(job.size)
        self._rows = np.array_split(np.arange(job.global_batch), job.size)  # of each device
        super().__init__(job, self._mirrored, _TITLE)
        self._set_dropout_seeds()
        self._timed = tf.function(self._timed_step, autograph=False)
        self._probe = tf.function(self._timed_all_reduce, autograph=False)

    def _make_variables(self, batch: api.Batch) -> None:
        """Build the model and its optimizers: a step on several devices cannot create variables.

        Raises:
            RefusedError: Keras cannot create them.
        """
        if type(self.model).call is keras.Model.call:
            raise RefusedError(f"{_TITLE} builds a model by its call(), which this one has not")
        if any(isinstance(part, tf.RaggedTensorSpec) for part in tf.nest.flatten(batch)):
            raise RefusedError(f"Keras cannot build a model on ragged tensors for {_TITLE}")
        symbols = tf.nest.map_structure(
            lambda spec: keras.KerasTensor(tuple(spec.shape), spec.dtype.name), batch
        )
        try:
            self.model._symbolic_build(data_batch=symbols)  # noqa: SLF001 (as `fit` does)
        except (RuntimeError, ValueError) as error:
            reason = reason_of(error.__context__ or error)
            raise RefusedError(f"Keras cannot build the model for {_TITLE}: {reason}") from error
        for inner in layers_in(self.model):
            optimizer = getattr(inner, "optimizer", None)
            if optimizer is not None and not optimizer.built:
                optimizer.build(inner.trainable_variables)
        if not all(optimizer.built for optimizer in optimizers_of(self.model)):
            raise RefusedError(
                f"{_TITLE} cannot build an optimizer in a train_step; build it where the model is "
                "compiled, by optimizer.build(…)"
            )
        for layer in api.stateful(self.model) if self._job.size > 1 else []:
            raise RefusedError(f"the layer {layer.name} is stateful, and {_TITLE} cuts its batch")

    def _set_dropout_seeds(self) -> None:
        """Give each device its own random numbers: the first device's seed plus a device number."""
        for variable in api.seeds(self.model):
            copies = self._mirrored.experimental_local_results(variable.value)
            for device, copy in enumerate(copies):
                copy.assign(copies[0].numpy() + np.array([device, 0]))

    def restore(self, state: list[np.ndarray]) -> None:
        super().restore(state)
        self._set_dropout_seeds()

    def _fused(self, batch: api.Batch) -> api.Logs:
        def device_step() -> api.Logs:
            return api.numbers(self.model.train_step(self._own_part(batch)))

        with changed_gradients(self.model, self._weighted):
            logs = self._mirrored.run(device_step)
        return {
            name: self._mirrored.reduce(tf.distribute.ReduceOp.MEAN, value, axis=None)
            for name, value in logs.items()
        }

    def _own_part(self, batch: api.Batch) -> api.Batch:
        """In the context of a device, return its part of the global batch."""
        rows = self._rows[_device()]
        return tf.nest.map_structure(lambda one: one[rows[0] : rows[-1] + 1], batch)

    def _weighted(self, gradients: list[Gradient]) -> list[Gradient]:
        """In the context of a device, weight its gradients by its examples."""
        share = self._job.size * len(self._rows[_device()]) / self._job.global_batch
        return weighted(gradients, share)

    def _timed_step(self, batch: api.Batch) -> tf.Tensor:
        """Train one step; return when each device had its last gradients, (devices,)."""
        ready: dict[int, tf.Tensor] = {}

        def change(gradients: list[Gradient]) -> list[Gradient]:
            gradients = self._weighted(gradients)
            ready[_device()] = after(gradients)
            return gradients

        def device_step() -> tf.Tensor:
            self.model.train_step(self._own_part(batch))
            if _device() not in ready:
                raise api.NotTimedError
            return ready[_device()]

        with changed_gradients(self.model, change):
            times = self._mirrored.run(device_step)
        return tf.stack(self._mirrored.experimental_local_results(times))

    def _timed_all_reduce(self) -> tf.Tensor:
        """Sum values like a gradient over the devices; return the seconds on each, (devices,)."""

        def device_sum() -> tf.Tensor:
            began = tf.timestamp()
            with tf.control_dependencies([began]):
                values = [tf.identity(v.value) for v in self.model.trainable_variables]
            context = tf.distribute.get_replica_context()
            return after(context.all_reduce(tf.distribute.ReduceOp.SUM, values)) - began

        seconds = self._mirrored.run(device_sum)
        return tf.stack(self._mirrored.experimental_local_results(seconds))

    def split_step(self, batch: api.Batch) -> api.StepTimes:
        """Train one step in parts; `wait` is 0, because it cannot be told from computing.

        The step computes until the slowest device has its last gradient. `communicate` is the time
        of an all-reduce of its own right after the step.
        """
        began = time.time()  # the clock of tf.timestamp
        ready = self._timed(batch).numpy().max()
        rest = time.time() - ready
        communicate = min(rest, self._probe().numpy().max())
        return api.StepTimes(ready - began, 0.0, communicate, rest - communicate)

    def barrier(self) -> None:
        """Do nothing: when a step returns, it has ended on all devices."""

    def agree(self) -> None:
        for variable in api.moving_statistics(self.model):
            variable.assign(np.mean(self._on_each_device(variable), axis=0))

    def weights_sha256(self) -> str:
        for variable in self.model.trainable_variables:
            first, *others = self._on_each_device(variable)
            if not all(np.array_equal(first, other) for other in others):
                raise RefusedError(
                    f"the devices' copies of {variable.path} differ: the model changes weights "
                    "other than by its optimizer, so that MirroredStrategy cannot see it"
                )
        return super().weights_sha256()

    def _on_each_device(self, variable: keras.Variable) -> list[np.ndarray]:
        copies = self._mirrored.experimental_local_results(variable.value)
        return [np.asarray(copy.numpy()) for copy in copies]


def _device() -> int:
    """Return the number of the current device, in its context."""
    context = tf.distribute.get_replica_context()
    return int(tf.get_static_value(context.replica_id_in_sync_group))


def _on_devices(size: int) -> tf.distribute.MirroredStrategy:
    """Return a strategy with `size` devices, one thread each.

    Call it before TensorFlow computes anything.
    """
    gpus = tf.config.list_physical_devices("GPU")
    kind = "GPU" if len(gpus) >= size else "CPU"
    tf.config.set_visible_devices(gpus[:size] if kind == "GPU" else [], "GPU")
    if kind == "CPU":
        (processor,) = tf.config.list_physical_devices("CPU")
        parts = [tf.config.LogicalDeviceConfiguration()] * size
        tf.config.set_logical_device_configuration(processor, parts)
        tf.config.threading.set_inter_op_parallelism_threads(max(2, size))
    return tf.distribute.MirroredStrategy([f"{kind}:{number}" for number in range(size)])

"""TensorFlow's MirroredStrategy: the nodes are devices of one process.

Synchronous data parallelism inside one machine: every device has a replica and takes its part of
the global batch; gradients are summed over the devices, and nothing goes over a network. Devices
are GPUs if there are enough of them, else logical CPU devices. Those share the process's pool of
threads, one thread for each device: which thread computes for which device is TensorFlow's choice.
"""

import time

import keras
import numpy as np
import tensorflow as tf

from nodewise.core.errors import RefusedError
from nodewise.strategies import api


class Strategy(api.Strategy):
    """Train on `job.size` devices of this process; every batch is the global one."""

    def __init__(self, job: api.Job) -> None:
        self._job = job
        self._devices = _devices(job.size)
        self._mirrored = tf.distribute.MirroredStrategy(self._devices)
        with self._mirrored.scope():
            keras.utils.set_random_seed(job.seed)
            self.model = job.build()
            self.optimizer = job.optimizer()
            self.optimizer.build(self.model.trainable_variables)
        self._own_masks()
        if job.size > 1 and api.clips(self.optimizer):
            raise RefusedError(
                "MirroredStrategy has the optimizer clip each device's gradient, not their sum; "
                "custom_loop clips the sum"
            )
        self._copies: list[api.Replica] = []
        self._step = tf.function(self._fused, autograph=False)
        self._gradients = tf.function(self._copies_gradients, autograph=False)
        self._sum = tf.function(tf.add_n, autograph=False)
        self._apply = tf.function(self._copies_apply, autograph=False)

    def _own_masks(self) -> None:
        """Give each device random numbers of its own: what the first one has, and its number."""
        for variable in api.seeds(self.model):
            copies = self._mirrored.experimental_local_results(variable.value)
            for device, copy in enumerate(copies):
                copy.assign(copies[0].numpy() + np.array([device, 0]))

    def restore(self, state: list[np.ndarray]) -> None:
        super().restore(state)
        self._own_masks()

    def _fused(self, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        parts = _parts(x, y, self._job.size)

        def device_step() -> tf.Tensor:
            context = tf.distribute.get_replica_context()
            own = parts[int(tf.get_static_value(context.replica_id_in_sync_group))]
            grads, scores = api.gradients(self.model, self._job, *own)
            # in a replica context a Keras optimizer sums the gradients over devices itself
            self.optimizer.apply(grads, self.model.trainable_variables)
            return scores

        scores = self._mirrored.run(device_step)
        return self._mirrored.reduce(tf.distribute.ReduceOp.SUM, scores, axis=None)

    def _copies_gradients(self, x: tf.Tensor, y: tf.Tensor) -> list[tf.Tensor]:
        gradients = []
        for device, copy, own in zip(
            self._devices, self._copies, _parts(x, y, self._job.size), strict=True
        ):
            with tf.device(device):
                gradients.append(copy.gradient(*own))
        return gradients

    def _copies_apply(self, total: tf.Tensor) -> None:
        for device, copy in zip(self._devices, self._copies, strict=True):
            with tf.device(device):
                copy.apply(total)

    def step(self, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return self._step(x, y)

    def split_step(self, x: tf.Tensor, y: tf.Tensor) -> api.StepTimes:
        """Train one step in parts, of which waiting is 0: it cannot be told from computing.

        The gradients are there when the slowest device has its own.
        """
        self._copy_once()
        marks = [time.perf_counter()]
        gradients = self._gradients(x, y)
        marks += [time.perf_counter()] * 2
        total = self._sum(gradients)
        marks.append(time.perf_counter())
        self._apply(total)
        marks.append(time.perf_counter())
        return api.StepTimes(*np.diff(marks).tolist())

    def _copy_once(self) -> None:
        """Give every device a plain copy of the model, for the split form.

        On mirrored variables a Keras optimizer would sum the gradients, which are summed already.
        """
        for device in self._devices[len(self._copies) :]:
            with tf.device(device):  # what is read is the device's own, its masks included
                self._copies.append(api.Replica(self._job).like(self._variables()))

    def split_weights(self) -> list[np.ndarray]:
        return [np.asarray(v.numpy()) for v in self._copies[0].model.trainable_variables]

    def barrier(self) -> None:
        """Return: a step has ended on all devices when it returns."""

    def agree(self) -> None:
        for variable in api.moving_statistics(self.model):
            variable.assign(np.mean(self._on_each_device(variable), axis=0))

    def weights_sha256(self) -> str:
        for variable in self.model.trainable_variables:
            first, *others = self._on_each_device(variable)
            if not all(np.array_equal(first, other) for other in others):
                raise RuntimeError(f"the devices' copies of {variable.path} differ")
        return super().weights_sha256()

    def _on_each_device(self, variable: keras.Variable) -> list[np.ndarray]:
        copies = self._mirrored.experimental_local_results(variable.value)
        return [np.asarray(copy.numpy()) for copy in copies]


def _parts(x: tf.Tensor, y: tf.Tensor, size: int) -> list[tuple[tf.Tensor, tf.Tensor]]:
    """Cut a batch into `size` parts, which differ by one example at most."""
    sizes = [len(part) for part in np.array_split(np.arange(x.shape[0]), size)]
    return list(zip(tf.split(x, sizes), tf.split(y, sizes), strict=True))


def _devices(size: int) -> list[str]:
    """Return the names of `size` devices, each with a thread; before TensorFlow's first step."""
    kind = "GPU" if len(tf.config.list_physical_devices("GPU")) >= size else "CPU"
    if kind == "CPU":
        (processor,) = tf.config.list_physical_devices("CPU")
        parts = [tf.config.LogicalDeviceConfiguration()] * size
        tf.config.set_logical_device_configuration(processor, parts)
        tf.config.threading.set_inter_op_parallelism_threads(max(2, size))
    return [f"{kind}:{number}" for number in range(size)]

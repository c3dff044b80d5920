"""Keras on JAX with `keras.distribution.DataParallel` over all processes.

Every array is global: variables are replicated, and a batch consists of the examples of all
workers. JAX compiles the model's training step for the whole batch, as in `fit`, and the compiler
adds the all-reduces that this step needs. On CPUs they use Gloo.
"""

import inspect
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any

import jax
import keras
import numpy as np
import tensorflow as tf
from jaxlib import _jax  # private: JAX has no setting for the address of Gloo

from nodewise.cluster.api import parsed
from nodewise.core.errors import RefusedError
from nodewise.strategies import api


class Strategy(api.Strategy):
    """Trains on `job.size` processes, which find each other through a coordinator in worker 0."""

    def __init__(self, job: api.Job) -> None:
        super().__init__(job)
        self._here: keras.Model | None = None
        for part in [] if job.batch is None else tf.nest.flatten(job.batch):
            ragged = isinstance(part, tf.RaggedTensorSpec)
            if ragged or part.dtype == tf.string:
                kind = "ragged arrays" if ragged else "strings"
                raise RefusedError(f"JAX cannot train on {kind}")
        keras.config.disable_traceback_filtering()  # it hides where an error was raised
        tf.config.set_visible_devices([], "GPU")  # TensorFlow only reads batches here
        threads = tf.config.threading.get_intra_op_parallelism_threads()
        os.environ["NPROC"] = str(threads)  # JAX reads it when it starts
        if job.size > 1:
            _connect(job)
        self._workers = keras.distribution.DataParallel(auto_shard_dataset=False)
        keras.distribution.set_distribution(self._workers)
        keras.utils.set_random_seed(job.seed)
        self.model = self._built()
        self._sum = jax.jit(lambda arrays: [array.sum(axis=0) for array in arrays])
        self._gradients = jax.jit(self._own_gradients)
        self._apply = jax.jit(self.model.optimizer.stateless_apply)
        if job.batch is not None:
            with _refusing_tensorflow(in_step=True):
                batch = jax.tree.map(self._whole, _zeros(job))
                jax.eval_shape(self.model.train_step, _state(self.model), batch)

    def _built(self) -> keras.Model:
        """Return a new model, with its variables if the structure of a batch is known."""
        with _refusing_tensorflow():
            model = self._job.build()
            if len(inspect.signature(type(model).train_step).parameters) != 3:
                raise RefusedError(
                    "the model's train_step is one for TensorFlow; for JAX it must be "
                    "train_step(self, state, data)"
                )
            if self._job.batch is not None:
                # variables of the model and of its metrics, as `fit` creates them
                model._symbolic_build(data_batch=_zeros(self._job))  # noqa: SLF001
        model.optimizer.build(model.trainable_variables)
        return model

    def _whole(self, own: tf.Tensor | np.ndarray) -> jax.Array:
        """Return the global array of which each worker has its `own` part of the first axis."""
        array = np.asarray(own)
        layout = self._workers.get_data_layout(array.shape).backend_layout
        return jax.make_array_from_process_local_data(layout, array)

    def step(self, batch: api.Batch) -> api.Logs:
        with _raising():
            data = jax.tree.map(self._whole, batch)
            if self.model.train_function is None:
                self.model._symbolic_build(data_batch=data)  # noqa: SLF001
                self.model.make_train_function()
            logs, state = self.model.train_function(_state(self.model), iter([data]))
            logs = api.numbers(jax.block_until_ready(logs))
        _set_state(self.model, state)
        return logs

    def barrier(self) -> None:
        with _raising():
            jax.block_until_ready(self._sum([self._whole(np.ones(1, np.float32))]))

    def agree(self) -> None:
        """Do nothing: variables are the same everywhere, also moving statistics."""

    def split_step(self, batch: api.Batch) -> api.StepTimes:
        """Compute the worker's own gradient, average it, update: each with a function of its own.

        Moving statistics are left out, batch normalization uses the worker's own examples, and a
        loss that is a sum counts as a mean.
        """
        if type(self.model).train_step is not keras.Model.train_step:
            raise api.NotTimedError
        state = _state(self.model)
        own = jax.tree.map(np.asarray, keras.utils.unpack_x_y_sample_weight(batch))
        timer = api.StepTimer()
        here = jax.tree.map(lambda array: array.addressable_data(0), state)
        gradients = jax.block_until_ready(self._gradients(here, *own))
        timer.end("compute")
        self.barrier()
        timer.end("wait")
        with _raising():
            means = jax.block_until_ready(self._sum([self._whole(one) for one in gradients]))
        timer.end("communicate")
        weights, optimizer = self._apply(state[2], means, state[0])
        _set_state(self.model, jax.block_until_ready((weights, state[1], optimizer, state[3])))
        timer.end("apply")
        return timer.times()

    def _own_gradients(self, state: "State", *batch: Any) -> list[jax.Array]:  # noqa: ANN401
        """Return the parts of the mean gradients that this worker's examples add, (1, …) each."""
        weights, others, optimizer, metrics = state
        gradients, _ = jax.grad(self.model.compute_loss_and_updates, has_aux=True)(
            weights, others, metrics, *batch, training=True, optimizer_variables=optimizer
        )
        return [gradient[None] / self._job.size for gradient in gradients]

    def evaluate(self, batches: Iterator[api.Batch]) -> dict[str, float]:
        """Evaluate a copy of the model on this process alone: workers have other batches."""
        keras.distribution.set_distribution(None)
        try:
            self._here = self._here or self._built()
            for target, source in zip(self._here.variables, self.model.variables, strict=True):
                target.assign(source.numpy())
            given = (batch if isinstance(batch, tuple) else (batch,) for batch in batches)
            return api.plain(api.numbers(self._here.evaluate(given, verbose=0, return_dict=True)))
        finally:
            keras.distribution.set_distribution(self._workers)

    def device(self) -> str:
        first = jax.local_devices()[0]
        return super().device() if first.platform == "cpu" else str(first.device_kind)


def _connect(job: api.Job) -> None:
    """Connect JAX on all workers. Each listens on the address of its own node only."""
    host = parsed(job.addresses[job.rank])[0]
    # by default Gloo takes the address of the host's name, which may be another one
    _jax.make_gloo_tcp_collectives = partial(_jax.make_gloo_tcp_collectives, hostname=host)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(
        job.addresses[0],
        num_processes=job.size,
        process_id=job.rank,
        coordinator_bind_address=job.addresses[0],
        cluster_detection_method="deactivate",
    )


def _zeros(job: api.Job) -> api.Batch:
    """Return a worker's batch of zeros."""
    return tf.nest.map_structure(
        lambda part: np.zeros(part.shape, part.dtype.as_numpy_dtype), job.batch
    )


State = tuple[list[jax.Array], ...]
"""The values of a model's variables: trainable, others, the optimizer's, the metrics'."""


def _variables(model: keras.Model) -> list[list[keras.Variable]]:
    others, metrics = model.non_trainable_variables, model.metrics_variables
    return [model.trainable_variables, others, model.optimizer.variables, metrics]


def _state(model: keras.Model) -> State:
    return tuple([variable.value for variable in group] for group in _variables(model))


def _set_state(model: keras.Model, state: State) -> None:
    for variables, values in zip(_variables(model), state, strict=True):
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)


@contextmanager
def _refusing_tensorflow(*, in_step: bool = False) -> Iterator[None]:
    """Refuse a model that gives values of JAX to TensorFlow.

    With `in_step`, also refuse one that calls TensorFlow at all, such as `tf.random`: JAX traces a
    step once, so that the result would be a constant.

    Raises:
        RefusedError: the model does so.
    """
    called: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and "/tensorflow/python/ops/" in frame.f_code.co_filename:
            called.append(frame.f_code.co_name)

    reason = "the model calls TensorFlow, whose operations do not run on JAX; use keras.ops"
    if in_step:
        sys.setprofile(note)
    try:
        yield
    except Exception as error:  # of a user's code
        passed = "".join(traceback.format_exception(error))
        if "/tensorflow/python/" in passed and "/jax/_src/" in passed:
            raise RefusedError(reason) from error
        raise
    finally:
        sys.setprofile(None)
    if called:
        raise RefusedError(f"{reason} (here: {called[0]})")


@contextmanager
def _raising() -> Iterator[None]:
    """Raise ConnectionError for errors that occur because a peer is gone."""
    try:
        yield
    except (ValueError, jax.errors.JaxRuntimeError) as error:
        if "Gloo" not in str(error):
            raise
        raise ConnectionError("Gloo: a peer is gone") from None
